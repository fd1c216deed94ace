// Allocations at call sites.
#pragma once

#include <cstdint>

#include "tests/unit/probes/cuda/records.h"

namespace gpusnoop::probes {

// Of memory that no other record is of.
inline cuda_allocation_record from(std::int32_t stack, std::uint64_t caller, std::uint64_t bytes,
                                   std::uint64_t at = 2'000) {
    static std::uint64_t address = 0x1000;
    auto record = allocation(address += 0x1000, bytes, at);
    record.stack = stack;
    record.caller = caller;
    return record;
}

}  // namespace gpusnoop::probes
