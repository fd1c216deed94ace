#include "exporter/series/family.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace gpusnoop::series {

namespace {

constexpr Owner nobody = 0;

std::size_t stride_of(const Description &description) {
    return description.type == Type::histogram ? description.bounds.size() + 2 : 1;
}

}  // namespace

std::size_t Family::Hash::operator()(const LabelValues &values) const {
    std::size_t hash = 0;
    for (const std::string &value : values) {
        hash = hash * 1'000'003 + std::hash<std::string_view>{}(value);
    }
    return hash;
}

Family::Family(Description description, std::uint32_t budget)
    : description_(std::make_shared<const Description>(std::move(description))),
      budget_(budget),
      stride_(stride_of(*description_)) {}

LabelValues Family::fold(const LabelValues &values) const {
    LabelValues folded = values;
    for (std::size_t i = 0; i < folded.size(); i++) {
        if (!description_->labels[i].bounded) {
            folded[i] = "other";
        }
    }
    return folded;
}

Slot Family::slot(Owner owner, const LabelValues &values) {
    if (const auto found = slots_.find(values); found != slots_.end()) {
        return found->second;
    }
    if (within_budget_ < budget_) {
        within_budget_++;
        return insert(owner, values);
    }
    folded_++;
    const LabelValues folded = fold(values);
    if (const auto found = slots_.find(folded); found != slots_.end()) {
        return found->second;
    }
    return insert(nobody, folded);
}

Slot Family::insert(Owner owner, const LabelValues &values) {
    Slot slot{static_cast<std::uint32_t>(entries_.size())};
    if (free_.empty()) {
        entries_.emplace_back();
        values_.resize(values_.size() + stride_);
    } else {
        slot = free_.back();
        free_.pop_back();
    }
    entries_[static_cast<std::size_t>(slot)] = {std::make_shared<const LabelValues>(values), owner};
    slots_.emplace(values, slot);
    return slot;
}

void Family::observe(Slot slot, std::uint64_t value) {
    const auto &bounds = description_->bounds;
    // A bucket holds the values up to and with its bound.
    const auto bucket = std::ranges::lower_bound(bounds, value) - bounds.begin();
    std::uint64_t *values = &values_[index(slot)];
    values[bucket]++;
    values[bounds.size() + 1] += value;
}

void Family::remove(Owner owner) {
    if (owner == nobody) {
        return;
    }
    for (std::size_t i = 0; i < entries_.size(); i++) {
        Entry &entry = entries_[i];
        if (entry.labels == nullptr || entry.owner != owner) {
            continue;
        }
        slots_.erase(*entry.labels);
        entry = {};
        std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(i * stride_), stride_, 0);
        free_.push_back(Slot{static_cast<std::uint32_t>(i)});
        within_budget_--;
    }
}

FamilySnapshot Family::snapshot() const {
    FamilySnapshot snapshot{description_, stride_, {}, {}};
    if (free_.empty()) {
        snapshot.values = values_;
        snapshot.labels.reserve(entries_.size());
        for (const Entry &entry : entries_) {
            snapshot.labels.push_back(entry.labels);
        }
        return snapshot;
    }
    for (std::size_t i = 0; i < entries_.size(); i++) {
        if (entries_[i].labels != nullptr) {
            snapshot.labels.push_back(entries_[i].labels);
            const auto first = values_.begin() + static_cast<std::ptrdiff_t>(i * stride_);
            snapshot.values.insert(snapshot.values.end(), first,
                                   first + static_cast<std::ptrdiff_t>(stride_));
        }
    }
    return snapshot;
}

}  // namespace gpusnoop::series
