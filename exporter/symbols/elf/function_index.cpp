#include "exporter/symbols/elf/function_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpusnoop::symbols {

FunctionIndex::FunctionIndex(std::vector<IndexedFunction> functions)
    : functions_(std::move(functions)) {
    // Of equals, the first one in the file comes last, as it counts.
    std::ranges::reverse(functions_);
    std::ranges::stable_sort(functions_, {}, [](const IndexedFunction &function) {
        return std::pair(function.vaddr, function.rank);
    });
    std::vector<std::uint32_t> open;  // the functions that cover the place, the last one on top
    // Ends the functions that end at this place or before it.
    const auto close_until = [&](std::uint64_t place) {
        while (!open.empty() && end_of(open.back()) <= place) {
            const std::uint64_t end = end_of(open.back());
            while (!open.empty() && end_of(open.back()) <= end) {
                open.pop_back();
            }
            add(end, open.empty() ? none : open.back());
        }
    };
    for (std::size_t i = 0; i < functions_.size(); ++i) {
        const auto function = static_cast<std::uint32_t>(i);
        close_until(functions_[i].vaddr);
        open.push_back(function);
        add(functions_[i].vaddr, function);
    }
    close_until(~std::uint64_t{0});
    segments_.shrink_to_fit();
}

std::uint64_t FunctionIndex::end_of(std::uint32_t function) const {
    const IndexedFunction &one = functions_[function];
    const std::uint64_t size = std::max<std::uint64_t>(one.size, 1);
    return one.vaddr + std::min(size, ~std::uint64_t{0} - one.vaddr);
}

void FunctionIndex::add(std::uint64_t begin, std::uint32_t function) {
    if (!segments_.empty() && segments_.back().begin == begin) {
        segments_.back().function = function;
    } else {
        segments_.push_back({begin, function});
    }
}

const IndexedFunction *FunctionIndex::at(std::uint64_t vaddr) const {
    const auto after = std::ranges::upper_bound(segments_, vaddr, {}, &Segment::begin);
    if (after == segments_.begin() || std::prev(after)->function == none) {
        return nullptr;
    }
    return &functions_[std::prev(after)->function];
}

}  // namespace gpusnoop::symbols
