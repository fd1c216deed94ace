// Reads the output of a BPF iterator's program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// The link of a loaded iterator's program, for read_iterator().
Result<Fd> link_iterator(int program);
// The same of an iterator over tasks, for one process: the kernel walks only that one from 6.1 on,
// and before, all of them. Fails with ESRCH if there is no such process.
Result<Fd> link_iterator_of(int program, std::uint32_t tgid);

// Whether the kernel walks only that one.
[[nodiscard]] bool can_iterate_over_one(int program);

// Runs an iterator once, and calls `use` for each record of its output; all records have one size.
// `link` is a descriptor of the iterator's link. Errors: an error of the kernel, or an incomplete
// record at the end.
Result<> read_iterator(int link, std::size_t record_bytes,
                       const std::function<void(std::span<const std::byte>)> &use);

}  // namespace gpusnoop::ebpf
