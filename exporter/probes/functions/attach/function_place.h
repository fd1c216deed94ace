// Identifies a function that is attached to.
#pragma once

#include <compare>
#include <cstdint>

#include "exporter/base/file_id.h"

namespace gpusnoop::probes {

// A function of a file, by the offset of its entry.
struct FunctionPlace {
    FileId file;
    std::uint64_t entry = 0;

    auto operator<=>(const FunctionPlace &) const = default;
};

}  // namespace gpusnoop::probes
