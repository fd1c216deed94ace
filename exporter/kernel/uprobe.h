// Attaching BPF programs to functions of a file, in the three ways that kernels offer.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/kernel/link.h"

struct bpf_program;

namespace gpusnoop::kernel {

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

// Sets the program's attach type to the session's, which libbpf 1.4 has no name for. Before load.
void expect_session(bpf_program *program);

struct AttachPoint {
    std::uint64_t file_offset;
    std::uint64_t cookie;
    bool entry_only = false;  // a session's program decides that by itself
};

// The programs of CALL_PROGRAMS in bpf/lib/call.bpf.h that belong to one mode: in a session `enter`
// is the one program and `leave` is null.
struct CallPrograms {
    AttachMode mode;
    const bpf_program *enter;
    const bpf_program *leave;
    const bpf_program *exit = nullptr;  // for instructions that leave a function
};

// Attached functions of one file. Detaches when destroyed, or when the process dies however it
// dies.
class UprobeSet {
public:
    // Attaches to all points or to none. `file_fd` is the library, opened once; it need not stay
    // open. The failure's code is the kernel's errno: EACCES and EPERM mean a missing capability.
    // `exits` are instructions that leave the functions of entry-only points.
    static Result<UprobeSet> attach(const CallPrograms &programs, int file_fd,
                                    const std::vector<AttachPoint> &points,
                                    const std::vector<AttachPoint> &exits = {});

    // Probes that another process attached; they are detached with their last link.
    static UprobeSet adopt(std::vector<Fd> links, std::size_t functions);

    [[nodiscard]] std::size_t functions() const { return functions_; }
    // Descriptors of its BPF links, which the set keeps.
    [[nodiscard]] std::vector<int> links() const;

private:
    Result<> link_all(const bpf_program *program, AttachMode mode, int file_fd,
                      const std::vector<AttachPoint> &points, bool at_return);

    std::size_t functions_ = 0;
    std::vector<Fd> multi_links_;  // and adopted ones of any kind
    std::vector<Link> perf_links_;
};

}  // namespace gpusnoop::kernel
