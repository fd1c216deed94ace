// Loaded BPF programs.
#pragma once

#include <cstdint>
#include <span>

#include "exporter/ebpf/uprobe.h"

struct bpf_object;

namespace gpusnoop::ebpf {

struct Runs {
    // Zero unless the machine counts them (sysctl kernel.bpf_stats_enabled).
    std::uint64_t count = 0;
    std::uint64_t nanoseconds = 0;
    // Those that the kernel left out, as a BPF program was running on that CPU already. Always
    // counted.
    std::uint64_t skipped = 0;
};

// Of all programs of the object, but for iterators: those run when we ask for something. Nothing is
// lost when one of `spare` is skipped, so that is not counted.
[[nodiscard]] Runs runs_of(const bpf_object *object,
                           std::span<const bpf_program *const> spare = {});

void load_if(bpf_program *program, bool wanted);

// Of the programs of CALL_PROGRAMS in bpf/lib/call.bpf.h, has only those of one mode loaded, and
// returns them. `Programs` is the skeleton's list. Before load.
template <typename Programs>
CallPrograms choose_call_programs(const Programs &programs, AttachMode mode) {
    load_if(programs.session, mode == AttachMode::session);
    load_if(programs.multi_enter, mode == AttachMode::multi);
    load_if(programs.multi_leave, mode == AttachMode::multi);
    load_if(programs.perf_enter, mode == AttachMode::perf);
    load_if(programs.perf_leave, mode == AttachMode::perf);
    expect_session(programs.session);
    switch (mode) {
        case AttachMode::session:
            return {mode, programs.session, nullptr};
        case AttachMode::multi:
            return {mode, programs.multi_enter, programs.multi_leave};
        case AttachMode::perf:
            break;
    }
    return {mode, programs.perf_enter, programs.perf_leave};
}

}  // namespace gpusnoop::ebpf
