// A library file that processes use, and the interface of probes that attach to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/symbols/elf/elf_reader.h"

namespace gpusnoop::discovery {

struct Library {
    FileId id;
    Fd file;           // the file to attach to. Closed when all attachers have decided
    std::string name;  // last part of its path: untrusted
    std::string path;  // as /proc/PID/maps shows it; empty if it does not any more: untrusted
    bool is_program = false;  // the executable of a process that maps a wanted library
    std::uint32_t tid = 0;    // of a thread that has mapped it, which may have ended since
    Fd content = {};          // if set, read this instead, because reading the file may wait
    FileState state = {};
    symbols::ElfLimits limits = {};  // of reading its symbols, for all attachers together
    // Called between the steps of attaching to the file, so that discovery's watchdog sees
    // progress. Many probes can take longer than the longest time without progress
    // (Progress::is_stuck).
    std::function<void()> note_progress = [] {};

    // Opened once; all contents of the library are read through it.
    [[nodiscard]] int readable() const { return content ? content.get() : file.get(); }
};

// A probe that attaches to libraries. Called from the discovery thread only.
class Attacher {
public:
    virtual ~Attacher() = default;

    // Whether a file of this name is wanted.
    [[nodiscard]] virtual bool wants(std::string_view name) const = 0;

    // Whether other wanted libraries call this one's functions internally. It is attached to after
    // them, so that no such call is counted as the program's own.
    [[nodiscard]] virtual bool is_inner(std::string_view /*name*/) const { return false; }

    // Globs of absolute paths on the host: files that are attached to before any process maps them.
    [[nodiscard]] virtual std::vector<std::string> paths() const { return {}; }

    // What the attacher finds in a file that it does not want by its name.
    struct Examined {
        bool is_wanted = false;    // for its contents: attach() is called for it
        std::string problem = {};  // why it should have another name, or its name be wanted
    };
    // Called once for each file that a process maps beside a wanted one, if the attacher examines
    // files at all. Takes 100 ms at most.
    [[nodiscard]] virtual bool examines() const { return false; }
    [[nodiscard]] virtual Examined examine(const Library & /*library*/) { return {}; }

    // Attaches to the library. A failure gives the reason; `code` ENOENT or ESRCH: the file
    // disappeared meanwhile. EAGAIN: it is offered again soon, and this was no failure. Programs
    // are offered, too, because a library may be linked into them; a program may contain nothing to
    // attach to.
    virtual Result<> attach(const Library &library) = 0;

    // No process maps the library any more, or its contents have changed (`is_changed`). May return
    // before the library is detached.
    virtual void detach(const FileId &id, bool is_changed) = 0;

    // Whether the library cannot be attached to yet, because detaching from it is not finished.
    [[nodiscard]] virtual bool must_wait_for(const FileId & /*id*/) { return false; }

    // A process has a wanted file mapped, since `mapped_at` (on the monotonic clock) if the kernel
    // reported that mapping. Called before the file is offered, and again at each rescan.
    virtual void used(const ebpf::Mapping & /*mapping*/,
                      std::optional<std::chrono::nanoseconds> /*mapped_at*/) {}

    // A library could not be opened. `reason` is a value for a label.
    virtual void failed(std::string_view reason) = 0;
};

}  // namespace gpusnoop::discovery
