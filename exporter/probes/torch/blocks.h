// The blocks of memory that one process holds above its allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include <tsl/robin_map.h>

#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/torch/devices.h"

namespace gpusnoop::probes {

struct TorchBlock {
    std::uint64_t bytes = 0;
    Site site;
    TorchDevice device;
};

// Never samples, never evicts. Sums are updated with each change.
class TorchBlocks {
public:
    // Replaces the block at the address, if there is one, and returns it: its free was not seen.
    std::optional<TorchBlock> allocate(std::uint64_t address, const TorchBlock &block);
    // Nothing: there is none at the address.
    std::optional<TorchBlock> free(std::uint64_t address);

    [[nodiscard]] std::size_t size() const { return blocks_.size(); }
    [[nodiscard]] const std::map<TorchDevice, Amount> &devices() const { return devices_; }
    [[nodiscard]] const std::map<Site, Amount> &sites() const { return sites_; }

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
};

}  // namespace gpusnoop::probes
