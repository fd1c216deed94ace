// The blocks of memory that one process holds above its allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <tsl/robin_map.h>

#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/torch/devices.h"

namespace gpusnoop::probes {

struct TorchBlock {
    std::uint64_t bytes = 0;
    Site site;
    TorchDevice device;
    // The bytes that it stands for: its own, or more with sampling.
    std::uint64_t weight = 0;
    std::uint64_t at_ns = 0;  // of its record
};

// Never evicts. Sums are updated with each change.
class TorchBlocks {
public:
    // Replaces the block at the address, if there is one, and returns it: its free was not seen.
    std::optional<TorchBlock> allocate(std::uint64_t address, const TorchBlock &block);
    // Nothing: there is none at the address.
    std::optional<TorchBlock> free(std::uint64_t address);

    [[nodiscard]] std::size_t size() const { return blocks_.size(); }
    [[nodiscard]] const std::map<TorchDevice, Amount> &devices() const { return devices_; }
    // By weight.
    [[nodiscard]] const std::map<Site, Amount> &sites() const { return sites_; }
    // An estimate of the variance of a site's weight, in bytes squared.
    [[nodiscard]] double variance_of(const Site &site) const;

    // Of those for which is_wanted(address, block).
    template <typename IsWanted>
    [[nodiscard]] std::vector<std::uint64_t> addresses_if(IsWanted is_wanted) const {
        std::vector<std::uint64_t> addresses;
        for (const auto &[address, block] : blocks_) {
            if (is_wanted(address, block)) {
                addresses.push_back(address);
            }
        }
        return addresses;
    }

private:
    // Blocks lie at multiples of their smallest size, so the low bits of addresses are the same.
    struct Hash {
        std::size_t operator()(std::uint64_t address) const {
            const std::uint64_t hash = address * 0x9e3779b97f4a7c15;
            return hash ^ (hash >> 32);
        }
    };

    tsl::robin_map<std::uint64_t, TorchBlock, Hash> blocks_;
    std::map<TorchDevice, Amount> devices_;
    std::map<Site, Amount> sites_;
    std::map<Site, double> variances_;  // that are not 0
};

}  // namespace gpusnoop::probes
