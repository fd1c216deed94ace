// A library file that processes use, and whoever wants to attach to it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/base/file_state.h"
#include "exporter/base/result.h"

namespace gpusnoop::discovery {

struct Library {
    FileId id;
    Fd file;           // the file: what is attached to. Closed when all have made up their mind
    std::string name;  // last part of its path: untrusted
    std::string path;  // as /proc/PID/maps shows it, empty if it does not any more: untrusted
    bool is_program = false;  // the executable of a process that maps a library we want
    std::uint32_t tid = 0;    // of a thread that has mapped it, which may have ended since
    Fd content = {};          // if it is there, what to read instead, as reading the file may wait
    FileState state = {};
    // To be called between the steps of attaching to it: what watches over discovery then knows
    // that it goes on. Many probes can take longer than discovery may stand still
    // (Progress::is_stuck).
    std::function<void()> note_progress = [] {};

    // Opened once; everything about the library is read through this.
    [[nodiscard]] int readable() const { return content ? content.get() : file.get(); }
};

// A probe that lives on libraries. Called from the discovery thread only.
class Attacher {
public:
    virtual ~Attacher() = default;

    // Would a file of this name be of interest?
    [[nodiscard]] virtual bool wants(std::string_view name) const = 0;

    // Do other libraries of interest call this one's functions inside of theirs? It is attached to
    // after them, so that none of those calls is taken for a program's own.
    [[nodiscard]] virtual bool is_inner(std::string_view /*name*/) const { return false; }

    // Attaches to the library. A failure says why; `code` ENOENT or ESRCH: it went away meanwhile.
    // A program is also offered, as a library may be linked into it; it may have nothing of use.
    virtual Result<> attach(const Library &library) = 0;

    // No process maps the library any more, or it has other contents now (`is_changed`). Need not
    // wait until it is detached.
    virtual void detach(const FileId &id, bool is_changed) = 0;

    // Whether the library cannot be attached to yet, as it is still being detached from.
    [[nodiscard]] virtual bool must_wait_for(const FileId & /*id*/) { return false; }

    // A library could not be opened. `reason` is a word for a label.
    virtual void failed(std::string_view reason) = 0;
};

}  // namespace gpusnoop::discovery
