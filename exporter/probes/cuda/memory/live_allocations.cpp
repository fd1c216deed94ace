#include "exporter/probes/cuda/memory/live_allocations.h"

namespace gpusnoop::probes {

namespace {

std::int64_t to_second(std::int64_t ns) {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::nanoseconds(ns)).count();
}

void add(Amount &amount, std::uint64_t bytes) {
    amount.bytes += bytes;
    amount.count++;
}

void subtract(Amount &amount, std::uint64_t bytes) {
    amount.bytes -= bytes;
    amount.count--;
}

template <typename Map>
void subtract(Map &amounts, const typename Map::key_type &key, std::uint64_t bytes) {
    const auto found = amounts.find(key);
    subtract(found->second, bytes);
    if (found->second.count == 0) {
        amounts.erase(found);
    }
}

}  // namespace

LiveAllocations::LiveAllocations(std::pmr::memory_resource *memory)
    : live_(memory), mappings_(memory), births_(memory), parts_(memory), sites_(memory) {}

bool LiveAllocations::allocate(std::uint64_t address, const Allocation &allocation) {
    if (!live_.emplace(key_of(address, allocation), allocation).second) {
        return false;
    }
    add(births_[to_second(allocation.born_ns)], allocation.bytes);
    add(parts_[{allocation.device, shown_kind(allocation.kind)}], allocation.bytes);
    add(sites_[allocation.site], allocation.bytes);
    add(all_, allocation.bytes);
    return true;
}

LiveAllocations::Live::iterator LiveAllocations::erase(Live::iterator entry) {
    const Allocation &allocation = entry->second;
    subtract(births_, to_second(allocation.born_ns), allocation.bytes);
    subtract(parts_, {allocation.device, shown_kind(allocation.kind)}, allocation.bytes);
    subtract(sites_, allocation.site, allocation.bytes);
    subtract(all_, allocation.bytes);
    return live_.erase(entry);
}

std::optional<Allocation> LiveAllocations::free(const Key &key) {
    const auto found = live_.find(key);
    if (found == live_.end()) {
        return std::nullopt;
    }
    const Allocation allocation = found->second;
    erase(found);
    return allocation;
}

std::optional<std::pair<LiveAllocations::Key, Allocation>>
LiveAllocations::find_not_in_kernel_table(bool is_handle, std::uint64_t address,
                                          std::int64_t time) const {
    auto above = live_.upper_bound({is_handle, address, time});
    while (above != live_.begin()) {
        const auto &[key, allocation] = *--above;
        if (key.is_handle != is_handle || key.address != address) {
            break;
        }
        if (allocation.never_in_kernel_table || allocation.was_briefly_missing) {
            return std::pair(key, allocation);
        }
    }
    return std::nullopt;
}

bool LiveAllocations::note_never_in_kernel_table(const Key &key) {
    const auto found = live_.find(key);
    if (found != live_.end()) {
        found->second.never_in_kernel_table = true;
    }
    return found != live_.end();
}

bool LiveAllocations::note_briefly_missing(const Key &key) {
    const auto found = live_.find(key);
    if (found != live_.end()) {
        found->second.was_briefly_missing = true;
    }
    return found != live_.end();
}

std::vector<Allocation> LiveAllocations::forget_older(const Key &key) {
    std::vector<Allocation> gone;
    auto entry = live_.lower_bound({key.is_handle, key.address, INT64_MIN});
    while (entry != live_.end() && entry->first < key) {
        gone.push_back(entry->second);
        entry = erase(entry);
    }
    return gone;
}

void LiveAllocations::map(std::uint64_t address, const Mapping &mapping) {
    const auto [there, is_new] = mappings_.try_emplace(address, mapping);
    if (!is_new && there->second.born_ns < mapping.born_ns) {
        there->second = mapping;
    }
}

std::vector<LiveAllocations::Key> LiveAllocations::unmap(std::uint64_t address, std::uint64_t bytes,
                                                         std::int64_t began) {
    std::vector<Key> ended;
    auto mapping = mappings_.lower_bound(address);
    while (mapping != mappings_.end() && mapping->first - address < bytes) {
        if (mapping->second.born_ns > began) {  // another thread has mapped there since
            ++mapping;
            continue;
        }
        ended.push_back({false, mapping->first, mapping->second.born_ns});
        mapping = mappings_.erase(mapping);
    }
    return ended;
}

bool LiveAllocations::is_on_device(std::uint64_t address) const {
    auto above = live_.upper_bound({false, address, INT64_MAX});
    if (above != live_.begin()) {
        const auto &[key, allocation] = *--above;
        if (!key.is_handle && address - key.address < allocation.bytes) {
            return !MEMORY_IS_HOST(allocation.kind);
        }
    }
    auto mapped = mappings_.upper_bound(address);
    if (mapped == mappings_.begin()) {
        return false;
    }
    const auto &[start, mapping] = *--mapped;
    return !mapping.is_host && address - start < mapping.bytes;
}

std::array<std::uint64_t, age_thresholds.size()> LiveAllocations::aged_bytes(
    std::chrono::nanoseconds now) const {
    std::array<std::uint64_t, age_thresholds.size()> aged{};
    for (const auto &[second, born] : births_) {
        // The age of the youngest allocation in that second.
        const std::chrono::seconds age(to_second(now.count()) - (second + 1));
        if (age < age_thresholds.front()) {
            break;
        }
        for (std::size_t i = 0; i < age_thresholds.size() && age >= age_thresholds[i]; i++) {
            aged[i] += born.bytes;
        }
    }
    return aged;
}

}  // namespace gpusnoop::probes
