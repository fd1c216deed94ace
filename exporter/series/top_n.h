// Selects the few heaviest of many items, without allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace gpusnoop::series {

template <std::size_t N>
class TopN {
public:
    struct Item {
        std::uint64_t weight;
        std::uint32_t entry;
    };

    void offer(std::uint64_t weight, std::uint32_t entry) {
        if (size_ < N) {
            items_[size_++] = {weight, entry};
        } else if (weight > items_.front().weight) {
            std::ranges::pop_heap(kept(), std::greater<>(), &Item::weight);
            items_.back() = {weight, entry};
        } else {
            return;
        }
        std::ranges::push_heap(kept(), std::greater<>(), &Item::weight);
    }

    // Ends the offering. The result is valid while this object exists.
    std::span<const Item> descending() {
        std::ranges::sort(kept(), std::greater<>(), &Item::weight);
        return kept();
    }

private:
    std::span<Item> kept() { return std::span(items_).first(size_); }

    std::array<Item, N> items_{};  // a heap, its lightest first
    std::size_t size_ = 0;
};

}  // namespace gpusnoop::series
