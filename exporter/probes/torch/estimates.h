// What sampled blocks say of all blocks, by call site.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/torch/blocks.h"

namespace gpusnoop::probes {

struct SiteEstimate {
    std::string_view label;
    std::uint64_t bytes = 0;
    std::uint64_t error = 0;  // with a probability of at least 95 %, it is off by no more
};

// With fewer samples an estimate says nothing.
inline constexpr std::uint64_t least_samples = 4;

// Where samples stand for `rate` bytes at least, and their sum has this estimated variance.
[[nodiscard]] std::uint64_t error_of_estimate(double variance, std::uint64_t rate);

// Of the sites that have a name, the largest first. Sites with one label are one; those with less
// than `least_samples` times the rate are left out.
[[nodiscard]] std::vector<SiteEstimate> estimates_of(const TorchBlocks &blocks,
                                                     const ProcessSites &names, std::uint64_t rate);

}  // namespace gpusnoop::probes
