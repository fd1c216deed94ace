#include "exporter/probes/torch/blocks.h"

namespace gpusnoop::probes {

namespace {

void add(Amount &amount, std::uint64_t bytes) {
    amount.bytes += bytes;
    amount.count++;
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
    add(sites_[block.site], block.bytes);
    return replaced;
}

std::optional<TorchBlock> TorchBlocks::free(std::uint64_t address) {
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) {
        return std::nullopt;
    }
    const TorchBlock block = found->second;
    blocks_.erase(found);
    subtract(devices_, block.device, block.bytes);
    subtract(sites_, block.site, block.bytes);
    return block;
}

}  // namespace gpusnoop::probes
