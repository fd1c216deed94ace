// The CPUs for which the kernel keeps a value of each entry of a per-CPU map.
#pragma once

#include <cstddef>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// Of this machine, also those that are offline. libbpf reads it from a file once: without a free
// descriptor the first call fails, and after a call that succeeded none does.
Result<std::size_t> possible_cpus();

}  // namespace gpusnoop::ebpf
