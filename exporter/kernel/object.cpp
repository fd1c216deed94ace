#include "exporter/kernel/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

namespace gpusnoop::kernel {

Runs runs_of(const bpf_object *object) {
    Runs sum;
    bpf_program *program = nullptr;
    while ((program = bpf_object__next_program(object, program)) != nullptr) {
        bpf_prog_info info{};
        std::uint32_t size = sizeof(info);
        if (bpf_program__fd(program) >= 0 &&
            bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0) {
            sum.count += info.run_cnt;
            sum.nanoseconds += info.run_time_ns;
            sum.skipped += info.recursion_misses;
        }
    }
    return sum;
}

void load_if(bpf_program *program, bool wanted) {
    bpf_program__set_autoload(program, wanted);
}

}  // namespace gpusnoop::kernel
