#include "exporter/probes/cuda_book.h"

namespace gpusnoop::probes {

namespace {

std::int64_t to_second(std::chrono::nanoseconds time) {
    return std::chrono::floor<std::chrono::seconds>(time).count();
}

}  // namespace

void AllocationBook::allocate(std::uint64_t address, std::uint64_t bytes,
                              std::chrono::nanoseconds at) {
    const std::int64_t second = to_second(at);
    live_.emplace(address, Allocation{bytes, second});  // after its equals: the oldest stays first
    Born &born = births_[second];
    born.bytes += bytes;
    born.count++;
    bytes_ += bytes;
}

std::optional<std::uint64_t> AllocationBook::free(std::uint64_t address) {
    const auto oldest = live_.lower_bound(address);
    if (oldest == live_.end() || oldest->first != address) {
        return std::nullopt;
    }
    const Allocation allocation = oldest->second;
    live_.erase(oldest);
    bytes_ -= allocation.bytes;
    const auto birth = births_.find(allocation.birth_second);
    birth->second.bytes -= allocation.bytes;
    if (--birth->second.count == 0) {
        births_.erase(birth);
    }
    return allocation.bytes;
}

bool AllocationBook::contains(std::uint64_t address) const {
    auto above = live_.upper_bound(address);
    if (above == live_.begin()) {
        return false;
    }
    const auto &[start, allocation] = *--above;
    return address - start < allocation.bytes;
}

std::array<std::uint64_t, age_thresholds.size()> AllocationBook::aged_bytes(
    std::chrono::nanoseconds now) const {
    std::array<std::uint64_t, age_thresholds.size()> aged{};
    for (const auto &[second, born] : births_) {
        const auto age = now - std::chrono::seconds(second + 1);  // of the youngest in that second
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
