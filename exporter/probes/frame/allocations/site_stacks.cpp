#include "exporter/probes/frame/allocations/site_stacks.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace gpusnoop::probes {

namespace {

// Of what the C library and the containers add to each.
constexpr std::size_t bytes_around = 96;

std::size_t bytes_of_stack(std::size_t frames) {
    return frames * sizeof(SharedFrame) + bytes_around;
}

bool is_before(const symbols::Frame &one, const symbols::Frame &other) {
    return std::tie(one.offset, one.function, one.module) <
           std::tie(other.offset, other.function, other.module);
}

}  // namespace

std::vector<symbols::Frame> frames_of(const SharedStack &stack) {
    std::vector<symbols::Frame> frames;
    if (stack) {
        std::ranges::transform(*stack, std::back_inserter(frames),
                               [](const SharedFrame &frame) { return *frame; });
    }
    return frames;
}

SharedStack ProcessStacks::keep(std::vector<symbols::Frame> frames) {
    std::size_t most = bytes_of_stack(frames.size());
    for (const symbols::Frame &frame : frames) {
        most += frames_.contains(frame) ? 0 : bytes_of(frame);
    }
    if (!share_.take(most)) {
        return nullptr;
    }
    std::size_t taken = bytes_of_stack(frames.size());
    auto stack = std::make_shared<std::vector<SharedFrame>>();
    stack->reserve(frames.size());
    for (symbols::Frame &frame : frames) {
        auto known = frames_.find(frame);
        if (known == frames_.end()) {
            taken += bytes_of(frame);
            known = frames_.insert(std::make_shared<const symbols::Frame>(std::move(frame))).first;
        }
        stack->push_back(*known);
    }
    share_.give_back(most - taken);  // a frame can be there twice
    return stack;
}

void ProcessStacks::forget(const SharedStack &stack) {
    if (stack) {
        share_.give_back(bytes_of_stack(stack->size()));
    }
}

void ProcessStacks::free_unused() {
    std::size_t freed = 0;
    std::erase_if(frames_, [&](const SharedFrame &frame) {
        const bool is_unused = frame.use_count() == 1;
        freed += is_unused ? bytes_of(*frame) : 0;
        return is_unused;
    });
    share_.give_back(freed);
}

bool ProcessStacks::ByValue::operator()(const SharedFrame &one, const SharedFrame &other) const {
    return is_before(*one, *other);
}
bool ProcessStacks::ByValue::operator()(const SharedFrame &one, const symbols::Frame &other) const {
    return is_before(*one, other);
}
bool ProcessStacks::ByValue::operator()(const symbols::Frame &one, const SharedFrame &other) const {
    return is_before(one, *other);
}

}  // namespace gpusnoop::probes
