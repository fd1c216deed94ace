// Attaches BPF programs to functions of a file, in the three ways that kernels offer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/base/result.h"

struct bpf_program;

namespace gpusnoop::ebpf {

// Best first.
enum class AttachMode {
    session,  // kernel >= 6.13: one program at both ends of a call
    multi,    // kernel >= 6.6: a program at each end, all functions of a file in one link
    perf,     // older: a perf event per function and end
};

std::string_view to_string(AttachMode mode);

// include/uapi/linux/bpf.h, enum bpf_attach_type: BPF_TRACE_UPROBE_MULTI, BPF_TRACE_UPROBE_SESSION.
// Debian's libbpf headers end before the second.
inline constexpr int uprobe_multi_type = 48;
inline constexpr int uprobe_session_type = 57;

// Sets the program's attach type to session, which libbpf 1.4 has no name for. Call it before load.
void expect_session(bpf_program *program);

struct AttachPoint {
    std::uint64_t file_offset;
    std::uint64_t cookie;
    bool entry_only = false;    // a session's program decides it itself
    bool is_expensive = false;  // the kernel cannot emulate the instruction there
    // The file offset of a 16-bit counter in the program's data, which the kernel increments in
    // each process as long as the probe is attached (a USDT probe's semaphore); 0: there is none.
    std::uint64_t semaphore = 0;
};

// The programs of CALL_PROGRAMS in bpf/lib/call.bpf.h that belong to one mode: in a session `enter`
// is the one program and `leave` is null.
struct CallPrograms {
    AttachMode mode;
    const bpf_program *enter;
    const bpf_program *leave;
    const bpf_program *exit = nullptr;  // for instructions that leave a function
    // Only in this process. Others, and what it forks, have no probes. Of the mode multi, before
    // Linux 6.10, only calls of the process's first thread (commit 46ba0e49b642).
    int only_tgid = -1;
};

// Places of a file where the kernel allows no probe, because it can neither step nor emulate the
// instruction there.
struct Refused {
    std::vector<std::uint64_t> entries;
    std::vector<std::uint64_t> exits;
};

// A file to attach to, opened once.
struct ProbedFile {
    int fd;
    // What the kernel attaches to; without its address, attaching waits for each process that maps
    // the file (mapper_locks.h).
    FileId id = {};
    std::shared_ptr<const void> kept = {};  // of the descriptor, for as long as there is a link
};

// Attached functions of one file. Detaches when destroyed, or when the process ends in any way.
class UprobeSet {
public:
    UprobeSet();  // attached to nothing

    // Attaches to all points except the refused ones. If the kernel refuses an exit, or on any
    // other failure, attaches to no point. The file need not stay open. The failure's code is the
    // kernel's errno: EACCES and EPERM mean a missing capability. EAGAIN: a process that maps the
    // file keeps its mappings locked.
    // `exits` are instructions that leave the functions of entry-only points. `kept` is an earlier
    // set of the same points; in the mode perf, links may have been taken off it. `on_link` is
    // called after each link: in the mode perf, each probe is a link, and can wait for 0.1 s while
    // others are detached.
    static Result<UprobeSet> attach(
        const CallPrograms &programs, const ProbedFile &file,
        const std::vector<AttachPoint> &points, const std::vector<AttachPoint> &exits = {},
        UprobeSet kept = {}, std::function<void()> on_link = [] {});

    // Takes over probes that another process attached; they are detached with their last link.
    static UprobeSet adopt(std::vector<Fd> links, std::size_t functions);

    [[nodiscard]] std::size_t functions() const { return functions_; }
    // Those whose probe is on an instruction that the kernel cannot emulate; 0 after adopt(), as it
    // is not known.
    [[nodiscard]] std::size_t expensive_functions() const { return expensive_functions_; }
    [[nodiscard]] bool is_empty() const { return links_.empty(); }
    [[nodiscard]] const Refused &refused() const { return refused_; }
    // Descriptors of its BPF links; the set still owns them.
    [[nodiscard]] std::vector<int> links() const;

    // Removes a link from the set, entries before ends, because a return without an entry is
    // harmless. Closing the link detaches its functions. Returns an invalid one if no link is left.
    Fd take_link();

private:
    // The functions that a link of the mode perf holds. In other modes, several functions share a
    // link.
    struct Held {
        Fd link;
        std::uint64_t file_offset = 0;
        const bpf_program *program = nullptr;
    };

    struct Target {
        ProbedFile file;
        int only_tgid;
        std::function<void()> on_link;
    };
    Result<> link_all(const bpf_program *program, AttachMode mode, const Target &target,
                      const std::vector<AttachPoint> &points, bool at_return,
                      std::vector<std::uint64_t> &refused);
    Result<> link_together(const bpf_program *program, AttachMode mode, const Target &target,
                           std::span<const AttachPoint> points, bool at_return,
                           std::vector<std::uint64_t> &refused);
    Result<> link_each(const bpf_program *program, const Target &target,
                       std::span<const AttachPoint> points, bool at_return,
                       std::vector<std::uint64_t> &refused);

    std::size_t functions_ = 0;
    std::size_t expensive_functions_ = 0;
    std::vector<Held> links_;  // in the order in which they were attached
    Refused refused_;
};

}  // namespace gpusnoop::ebpf
