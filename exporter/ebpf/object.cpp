#include "exporter/ebpf/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>

#include "exporter/ebpf/libbpf.h"

namespace gpusnoop::ebpf {

namespace {

// Hash tables that grow as they fill need an allocator that BPF programs may use anywhere, which
// came with Linux 6.1 (commit 7c8199e24fa0, "bpf: Introduce any context BPF specific memory
// allocator"). Before, the kernel allocates all of a table at once.
bool tables_can_grow() {
    static const bool can_grow = has_type("bpf_mem_alloc");
    return can_grow;
}

// Zero if it is not loaded.
Runs runs_of(const bpf_program *program) {
    bpf_prog_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_program__fd(program) < 0 ||
        bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size) != 0) {
        return {};
    }
    return {info.run_cnt, info.run_time_ns, info.recursion_misses};
}

// The programs of each mode, by the part of their names after the probe's.
struct NamesOfMode {
    AttachMode mode;
    std::string_view enter, leave, exit;
};

constexpr NamesOfMode call_programs[] = {
    {AttachMode::session, "session", "", "multi_exit"},
    {AttachMode::multi, "multi_in", "multi_ret", "multi_exit"},
    {AttachMode::perf, "perf_in", "perf_ret", "perf_exit"},
};

bool is_named(std::string_view name, std::string_view part) {
    const std::size_t probe = name.find('_');
    return probe != std::string_view::npos && name.substr(probe + 1) == part;
}

}  // namespace

Runs runs_of(const bpf_object *object, std::span<const bpf_program *const> spare) {
    Runs sum;
    bpf_program *program = nullptr;
    while ((program = bpf_object__next_program(object, program)) != nullptr) {
        if (bpf_program__expected_attach_type(program) == BPF_TRACE_ITER) {
            continue;
        }
        const Runs runs = runs_of(program);
        sum.count += runs.count;
        sum.nanoseconds += runs.nanoseconds;
        sum.skipped += std::ranges::find(spare, program) == spare.end() ? runs.skipped : 0;
    }
    return sum;
}

void load_if(bpf_program *program, bool wanted) {
    bpf_program__set_autoload(program, wanted);
}

void grow_on_demand(bpf_map *table) {
    if (tables_can_grow()) {
        bpf_map__set_map_flags(table, bpf_map__map_flags(table) | BPF_F_NO_PREALLOC);
    }
}

void size_table(bpf_map *map, std::uint32_t entries, std::uint32_t most_at_once) {
    const bool can_grow = tables_can_grow();
    bpf_map__set_max_entries(map, can_grow ? entries : std::min(entries, most_at_once));
    if (!can_grow) {
        bpf_map__set_map_flags(map, bpf_map__map_flags(map) & ~BPF_F_NO_PREALLOC);
    }
}

// Programs in a table for tail calls are of the kind of those that call them.
void prepare_tail(bpf_program *tail, const bpf_program *entry, bool wanted) {
    load_if(tail, wanted);
    bpf_program__set_expected_attach_type(tail, bpf_program__expected_attach_type(entry));
}

int set_tail(const bpf_map *tails, const bpf_program *tail) {
    if (!bpf_program__autoload(tail)) {
        return 0;
    }
    const std::uint32_t first = 0;
    const int program = bpf_program__fd(tail);
    return bpf_map_update_elem(bpf_map__fd(tails), &first, &program, BPF_ANY);
}

bpf_program *find_program(const bpf_object *object, std::string_view part) {
    bpf_program *program = nullptr;
    while ((program = bpf_object__next_program(object, program)) != nullptr) {
        if (is_named(bpf_program__name(program), part)) {
            return program;
        }
    }
    return nullptr;
}

bpf_map *find_map(const bpf_object *object, std::string_view part) {
    bpf_map *map = nullptr;
    while ((map = bpf_object__next_map(object, map)) != nullptr) {
        if (is_named(bpf_map__name(map), part)) {
            return map;
        }
    }
    return nullptr;
}

CallPrograms choose_call_programs(const bpf_object *object, AttachMode mode, bool at_exits) {
    CallPrograms chosen{mode, nullptr, nullptr};
    for (const NamesOfMode &names : call_programs) {
        for (const std::string_view part : {names.enter, names.leave, names.exit}) {
            if (bpf_program *const program = find_program(object, part)) {
                load_if(program, false);
            }
        }
    }
    const auto choose = [&](std::string_view part) {
        bpf_program *const program = find_program(object, part);
        if (program != nullptr) {
            load_if(program, true);
        }
        return program;
    };
    for (const NamesOfMode &names : call_programs) {
        if (names.mode == mode) {
            chosen.enter = choose(names.enter);
            chosen.leave = choose(names.leave);
            chosen.exit = at_exits ? choose(names.exit) : nullptr;
        }
    }
    if (mode == AttachMode::session && chosen.enter != nullptr) {
        expect_session(find_program(object, "session"));
    }
    return chosen;
}

}  // namespace gpusnoop::ebpf
