#include "exporter/probes/frame/allocations/site_stacks.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace gpusnoop::probes {

namespace {

// Of what the C library and the containers add to each.
constexpr std::size_t bytes_around = 96;

std::size_t bytes_of(const symbols::Frame &frame) {
    return sizeof(frame) + frame.function.size() + frame.module.size() + bytes_around;
}

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

bool StackRoom::take(const User &user, std::size_t bytes) {
    const auto known = of_users_.find(user);
    const std::size_t of_user = known == of_users_.end() ? 0 : known->second;
    const std::size_t most = user == 0U ? limits_.bytes : limits_.bytes_of_user;
    if (bytes > limits_.bytes - taken_ || of_user + bytes > most) {
        return false;
    }
    taken_ += bytes;
    of_users_[user] += bytes;
    return true;
}

void StackRoom::give_back(const User &user, std::size_t bytes) {
    taken_ -= bytes;
    if (const auto known = of_users_.find(user); (known->second -= bytes) == 0) {
        of_users_.erase(known);
    }
}

ProcessStacks::ProcessStacks(std::shared_ptr<StackRoom> room, StackRoom::User user)
    : room_(std::move(room)), user_(user) {}

ProcessStacks &ProcessStacks::operator=(ProcessStacks &&other) noexcept {
    std::swap(room_, other.room_);
    std::swap(user_, other.user_);
    std::swap(bytes_, other.bytes_);
    std::swap(frames_, other.frames_);
    return *this;
}

ProcessStacks::~ProcessStacks() {
    if (room_ && bytes_ > 0) {
        room_->give_back(user_, bytes_);
    }
}

void ProcessStacks::give_back(std::size_t bytes) {
    if (bytes > 0) {
        room_->give_back(user_, bytes);
        bytes_ -= bytes;
    }
}

SharedStack ProcessStacks::keep(std::vector<symbols::Frame> frames) {
    std::size_t most = bytes_of_stack(frames.size());
    for (const symbols::Frame &frame : frames) {
        most += frames_.contains(frame) ? 0 : bytes_of(frame);
    }
    if (!room_ || !room_->take(user_, most)) {
        return nullptr;
    }
    bytes_ += most;
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
    give_back(most - taken);  // a frame can be there twice
    return stack;
}

void ProcessStacks::forget(const SharedStack &stack) {
    if (stack) {
        give_back(bytes_of_stack(stack->size()));
    }
}

void ProcessStacks::free_unused() {
    std::size_t freed = 0;
    std::erase_if(frames_, [&](const SharedFrame &frame) {
        const bool is_unused = frame.use_count() == 1;
        freed += is_unused ? bytes_of(*frame) : 0;
        return is_unused;
    });
    give_back(freed);
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
