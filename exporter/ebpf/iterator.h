// Reads the output of a BPF iterator's program.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// The link of a loaded iterator's program, for read_iterator().
Result<Fd> link_iterator(int program);

// Runs an iterator once, and calls `use` for each record of its output; all records have one size.
// `link` is a descriptor of the iterator's link. Errors: an error of the kernel, or an incomplete
// record at the end.
Result<> read_iterator(int link, std::size_t record_bytes,
                       const std::function<void(std::span<const std::byte>)> &use);

}  // namespace gpusnoop::ebpf
