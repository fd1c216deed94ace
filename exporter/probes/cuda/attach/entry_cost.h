// How many of a library's CUDA functions are expensive to probe.
#pragma once

#include <cstddef>
#include <optional>

namespace gpusnoop::probes {

struct EntryCost {
    std::size_t functions = 0;  // that are traced, each place once
    std::size_t expensive = 0;  // of these: see symbols::EntryProbe
};

// Of the library that `fd` is open on; nothing if it cannot be read.
[[nodiscard]] std::optional<EntryCost> entry_cost(int fd);

}  // namespace gpusnoop::probes
