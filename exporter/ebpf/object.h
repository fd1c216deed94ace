// Loaded BPF programs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "exporter/ebpf/uprobe.h"

struct bpf_map;
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

// The program or map that is named PROBE_`part` (bpf/lib/names.bpf.h), whatever the probe; null:
// the object has none.
[[nodiscard]] bpf_program *find_program(const bpf_object *object, std::string_view part);
[[nodiscard]] bpf_map *find_map(const bpf_object *object, std::string_view part);

// Of the programs of CALL_PROGRAMS and CALL_EXIT_PROGRAMS in bpf/lib/call.bpf.h, has only those of
// one mode loaded, and returns them. Before load.
[[nodiscard]] CallPrograms choose_call_programs(const bpf_object *object, AttachMode mode,
                                                bool at_exits);

}  // namespace gpusnoop::ebpf
