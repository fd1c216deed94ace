#include "exporter/ebpf/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>

namespace gpusnoop::ebpf {

namespace {

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

}  // namespace gpusnoop::ebpf
