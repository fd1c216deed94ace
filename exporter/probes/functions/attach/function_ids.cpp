#include "exporter/probes/functions/attach/function_ids.h"

#include <algorithm>

namespace gpusnoop::probes {

std::uint32_t FunctionIds::add(FunctionInfo function, std::chrono::nanoseconds now) {
    const std::lock_guard lock(mutex_);
    auto number = static_cast<std::uint32_t>(entries_.size());
    if (free_.empty()) {
        entries_.emplace_back();
    } else {
        number = free_.back();
        free_.pop_back();
    }
    entries_[number] = {std::make_shared<const FunctionInfo>(std::move(function)), true, now};
    return number;
}

void FunctionIds::change(std::vector<Change> changes) {
    const std::lock_guard lock(mutex_);
    for (Change &change : changes) {
        std::erase_if(queue_, [&](const auto &one) { return one.second.number == change.number; });
        Entry &entry = entries_[change.number];
        if (entry.function == nullptr && change.function != nullptr) {
            entry.function = std::move(change.function);  // its calls have not been counted yet
        } else if (change.is_released || entry.function == nullptr || change.function == nullptr ||
                   *change.function != *entry.function) {
            queue_.emplace_back(++queued_, std::move(change));
        }
    }
}

FunctionInfoPtr FunctionIds::find(std::uint32_t number) const {
    const std::lock_guard lock(mutex_);
    return number < entries_.size() ? entries_[number].function : nullptr;
}

bool FunctionIds::is_given(std::uint32_t number) const {
    const std::lock_guard lock(mutex_);
    return number < entries_.size() && entries_[number].is_given;
}

std::chrono::nanoseconds FunctionIds::given_at(std::uint32_t number) const {
    const std::lock_guard lock(mutex_);
    return number < entries_.size() ? entries_[number].given_at : std::chrono::nanoseconds(0);
}

std::vector<FunctionInfoPtr> FunctionIds::all() const {
    const std::lock_guard lock(mutex_);
    std::vector<FunctionInfoPtr> all;
    for (const Entry &entry : entries_) {
        if (entry.function != nullptr) {
            all.push_back(entry.function);
        }
    }
    return all;
}

std::uint64_t FunctionIds::queued() const {
    const std::lock_guard lock(mutex_);
    return queued_;
}

std::optional<std::vector<FunctionInfoPtr>> FunctionIds::apply(std::uint64_t up_to) {
    const std::lock_guard lock(mutex_);
    const auto end =
        std::ranges::find_if(queue_, [&](const auto &one) { return one.first > up_to; });
    if (end == queue_.begin()) {
        return std::nullopt;
    }
    std::vector<FunctionInfoPtr> replaced;
    for (auto one = queue_.begin(); one != end; ++one) {
        Change &change = one->second;
        Entry &entry = entries_[change.number];
        if (entry.function != nullptr && (change.is_removed || !change.is_released)) {
            replaced.push_back(std::move(entry.function));
        }
        entry.function = std::move(change.function);
        entry.is_given = !change.is_released;
        if (change.is_released) {
            free_.push_back(change.number);
        }
    }
    queue_.erase(queue_.begin(), end);
    return replaced;
}

}  // namespace gpusnoop::probes
