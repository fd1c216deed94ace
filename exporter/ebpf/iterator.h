// Reads what the program of a BPF iterator writes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// Runs an iterator once, and calls `use` for each record of what it writes: all are of one size.
// `link` is a descriptor of the iterator's link. Errors: of the kernel, and fewer bytes at the end
// than a record has.
Result<> read_iterator(int link, std::size_t record_bytes,
                       const std::function<void(std::span<const std::byte>)> &use);

}  // namespace gpusnoop::ebpf
