#include "exporter/probes/cuda/memory/unmapped.h"

namespace gpusnoop::probes {

namespace {

// A process could make any number of ranges that have the same mappings in them.
constexpr std::size_t max_ranges = 256;

}  // namespace

Unmapped::Unmapped(const LiveTable &table, std::span<const std::size_t> entries) {
    std::vector<std::size_t> ranges;
    for (const std::size_t i : entries) {
        const auto &[key, live] = table.entries[i];
        if (key.space == CUDA_LIVE_UNMAPS) {
            ranges.push_back(i);
        } else if (key.space == CUDA_LIVE_MAPPINGS && live.uses == 0) {
            live_[key.address] = {
                live.bytes, live.born_ns, {live.context, live.caller}, MEMORY_IS_HOST(live.kind)};
        } else if (key.space == CUDA_LIVE_MAPPINGS) {
            done_.push_back({key, live.born_ns});  // ended by us, but not removed yet
        }
    }
    has_more_ = ranges.size() > max_ranges;
    for (std::size_t i = 0; i < ranges.size() && i < max_ranges; i++) {
        const auto &[key, live] = table.entries[ranges[i]];
        end_in(live, key);
        done_.push_back({key, live.born_ns});
    }
}

void Unmapped::end_in(const cuda_live &range, const cuda_live_key &key) {
    auto mapping = live_.lower_bound(range.context);
    while (mapping != live_.end() && mapping->first < range.caller) {
        const auto &[address, what] = *mapping;
        if (what.born_ns > range.born_ns) {
            ++mapping;  // made since
            continue;
        }
        const LiveEntry entry{{address, key.since_ns, key.tgid, CUDA_LIVE_MAPPINGS}, what.born_ns};
        ended_.push_back(entry);
        done_.push_back(entry);
        given_up_[what.handle]++;
        mapping = live_.erase(mapping);
    }
}

bool Unmapped::was_last_use(const cuda_live_key &key, const cuda_live &live) const {
    const auto found = given_up_.find({key.address, live.born_ns});
    return key.space == CUDA_LIVE_HANDLES && found != given_up_.end() &&
           live.uses == found->second * CUDA_ONE_MAPPING;
}

}  // namespace gpusnoop::probes
