// Loaded BPF programs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "exporter/ebpf/attach/uprobe.h"

struct bpf_map;
struct bpf_object;

namespace gpusnoop::ebpf {

struct Runs {
    // Zero unless the machine counts them (sysctl kernel.bpf_stats_enabled).
    std::uint64_t count = 0;
    std::uint64_t nanoseconds = 0;
    // Runs that the kernel skipped, because a BPF program was already running on that CPU. Always
    // counted.
    std::uint64_t skipped = 0;
};

// The runs of all programs of the object except iterators, which run only on request. Skipped runs
// of `spare` lose nothing and are not counted.
[[nodiscard]] Runs runs_of(const bpf_object *object,
                           std::span<const bpf_program *const> spare = {});

void load_if(bpf_program *program, bool wanted);

// Makes the hash table take memory only for its entries, if the kernel can do that. Call it before
// load.
void grow_on_demand(bpf_map *table);
// The kernel allocates the entries of such a hash table (BPF_F_NO_PREALLOC) as it fills, where it
// can; else all at once, and then they are `most_at_once` at most. Call it before load.
void size_table(bpf_map *map, std::uint32_t entries, std::uint32_t most_at_once);

// `tail` continues the program `entry`, which calls it through the only element of `tails`. The
// first before the load; the second after it, and returns 0 or the negative errno.
void prepare_tail(bpf_program *tail, const bpf_program *entry, bool wanted);
[[nodiscard]] int set_tail(const bpf_map *tails, const bpf_program *tail);

// The program or map named PROBE_`part` (bpf/lib/names.bpf.h), for any probe; null if the object
// has no such program or map.
[[nodiscard]] bpf_program *find_program(const bpf_object *object, std::string_view part);
[[nodiscard]] bpf_map *find_map(const bpf_object *object, std::string_view part);

// Selects one mode's programs from CALL_PROGRAMS and CALL_EXIT_PROGRAMS in bpf/lib/call.bpf.h, and
// returns them; the others are not loaded. Call it before load.
[[nodiscard]] CallPrograms choose_call_programs(const bpf_object *object, AttachMode mode,
                                                bool at_exits);

// Owns one BPF object with its maps and programs, as bpftool's skeleton describes it.

// `S` is a generated skeleton (<name>_bpf): its static open/load/destroy are used. It keeps no
// links: attach through ebpf/attach/uprobe.h or ebpf/libbpf.h, and destroy those first.
template <typename S>
struct SkeletonDeleter {
    void operator()(S *skeleton) const { S::destroy(skeleton); }
};

template <typename S>
using Skeleton = std::unique_ptr<S, SkeletonDeleter<S>>;

}  // namespace gpusnoop::ebpf
