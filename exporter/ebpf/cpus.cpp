#include "exporter/ebpf/cpus.h"

#include <bpf/libbpf.h>

namespace gpusnoop::ebpf {

Result<std::size_t> possible_cpus() {
    const int cpus = libbpf_num_possible_cpus();
    if (cpus < 0) {
        return fail_errno("count the CPUs", -cpus);
    }
    return static_cast<std::size_t>(cpus);
}

}  // namespace gpusnoop::ebpf
