#include "exporter/probes/torch/blocks.h"

#include <algorithm>

namespace gpusnoop::probes {

namespace {

void add(Amount &amount, std::uint64_t bytes) {
    amount.bytes += bytes;
    amount.count++;
}

// Of all blocks, each is sampled with the probability bytes / weight, independently of the others
// (the variance of Horvitz and Thompson's estimator, as sampled blocks estimate it).
double variance_of_block(const TorchBlock &block) {
    return static_cast<double>(block.weight) * static_cast<double>(block.weight - block.bytes);
}

template <typename Key>
void subtract(std::map<Key, Amount> &amounts, const Key &key, std::uint64_t bytes) {
    const auto found = amounts.find(key);
    found->second.bytes -= bytes;
    if (--found->second.count == 0) {
        amounts.erase(found);
    }
}

}  // namespace

std::optional<TorchBlock> TorchBlocks::allocate(std::uint64_t address, const TorchBlock &block) {
    std::optional<TorchBlock> replaced = free(address);
    blocks_.emplace(address, block);
    add(devices_[block.device], block.bytes);
    add(sites_[block.site], block.weight);
    if (block.weight > block.bytes) {
        variances_[block.site] += variance_of_block(block);
    }
    return replaced;
}

double TorchBlocks::variance_of(const Site &site) const {
    const auto known = variances_.find(site);
    return known == variances_.end() ? 0 : std::max(known->second, 0.0);
}

std::optional<TorchBlock> TorchBlocks::free(std::uint64_t address) {
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) {
        return std::nullopt;
    }
    const TorchBlock block = found->second;
    blocks_.erase(found);
    subtract(devices_, block.device, block.bytes);
    subtract(sites_, block.site, block.weight);
    if (!sites_.contains(block.site)) {
        variances_.erase(block.site);
    } else if (block.weight > block.bytes) {
        variances_[block.site] -= variance_of_block(block);
    }
    return block;
}

}  // namespace gpusnoop::probes
