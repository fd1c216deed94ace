#include "exporter/series/family.h"

#include <algorithm>
#include <string_view>

namespace gpusnoop::series {

namespace {

constexpr Owner nobody = 0;
constexpr std::string_view other = "other";

// Handles of folded sets, besides those of shown sets and candidates: 12 bytes each. A handle lasts
// as long as its owner, even if its set was forgotten.
constexpr std::size_t max_spare_handles = 262'144;

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
      stride_(stride_of(*description_)) {
    const auto &labels = description_->labels;
    has_details_ = std::ranges::any_of(labels, &Label::detail);
    // If all labels are bounded, the family has no "other" set.
    promotes_ =
        description_->type == Type::counter && !std::ranges::all_of(labels, &Label::bounded);
    if (is_off()) {  // for the handle of all label sets
        values_.resize(stride_);
        handles_ = {.cells = {0}, .owners = {nobody}, .next = {none}, .free = {}};
    }
}

std::uint32_t Family::limit(Level level) const {
    const std::uint32_t coarse = has_details_ ? budget_ / 2 : 0;
    return level == Level::coarse ? coarse : budget_ - coarse;
}

std::size_t Family::max_handles() const {
    return budget_ + max_candidates() + max_spare_handles;
}

LabelValues Family::fold(const LabelValues &values, Level to) const {
    LabelValues folded = values;
    for (std::size_t i = 0; i < folded.size(); i++) {
        const Label &label = description_->labels[i];
        if (!label.bounded && (label.detail || to == Level::other)) {
            folded[i] = other;
        }
    }
    return folded;
}

Family::Level Family::level_of(const LabelValues &values) const {
    bool any_unbounded = false;
    bool folded = true;
    bool details_folded = has_details_;
    for (std::size_t i = 0; i < values.size(); i++) {
        const Label &label = description_->labels[i];
        if (!label.bounded) {
            any_unbounded = true;
            folded = folded && values[i] == other;
            details_folded = details_folded && (!label.detail || values[i] == other);
        }
    }
    if (any_unbounded && folded) {
        return Level::other;
    }
    return details_folded ? Level::coarse : Level::full;
}

Slot Family::slot(Owner owner, const LabelValues &values) {
    if (is_off()) {
        return Slot{0};
    }
    if (const auto found = index_.find(values); found != index_.end()) {
        return handle_of(found->second);
    }
    const Level level = level_of(values);
    if (level == Level::other) {
        return handle_of(other_of(values));
    }
    if (shown(level) < limit(level)) {
        return handle_of(insert(owner, values, level, true));
    }
    counts_.folded++;
    if (promotes_ &&
        counts_.candidates + 2 > max_candidates()) {  // itself, and a coarse set above it
        forget_lightest();
    }
    const Index parent = parent_of(owner, values, level);
    if (!promotes_ || counts_.candidates >= max_candidates() ||
        handles_.cells.size() - handles_.free.size() >= max_handles()) {
        return handle_of(parent);
    }
    const Index candidate = insert(owner, values, level, false);
    entries_[candidate].parent = parent;
    return handle_of(candidate);
}

Family::Index Family::other_of(const LabelValues &values) {
    const LabelValues folded = fold(values, Level::other);
    const auto found = index_.find(folded);
    return found != index_.end() ? found->second : insert(nobody, folded, Level::other, true);
}

// The set that counts a folded one: the coarse set, if it exists or may be made, or "other".
Family::Index Family::parent_of(Owner owner, const LabelValues &values, Level level) {
    if (level != Level::full || !has_details_) {
        return other_of(values);
    }
    const LabelValues coarse = fold(values, Level::coarse);
    if (level_of(coarse) != Level::coarse) {
        return other_of(values);
    }
    if (const auto found = index_.find(coarse); found != index_.end()) {
        // A coarse set of another owner may be removed before its child sets.
        return entries_[found->second].owner == owner ? found->second : other_of(values);
    }
    if (shown(Level::coarse) < limit(Level::coarse)) {
        return insert(owner, coarse, Level::coarse, true);
    }
    const Index parent = other_of(values);
    if (!promotes_ || counts_.candidates + 2 > max_candidates()) {
        return parent;
    }
    const Index candidate = insert(owner, coarse, Level::coarse, false);
    entries_[candidate].parent = parent;
    return candidate;
}

Family::Index Family::insert(Owner owner, const LabelValues &values, Level level, bool is_shown) {
    Index entry = static_cast<Index>(entries_.size());
    if (free_entries_.empty()) {
        entries_.emplace_back();
        values_.resize(values_.size() + stride_);
    } else {
        entry = free_entries_.back();
        free_entries_.pop_back();
    }
    entries_[entry] = {.labels = std::make_shared<const LabelValues>(values),
                       .owner = owner,
                       .level = level,
                       .shown = is_shown,
                       .born = counts_.births++};
    if (!is_shown) {
        counts_.candidates++;
    } else if (level != Level::other) {
        shown(level)++;
    }
    index_.emplace(entries_[entry].labels.get(), entry);
    return entry;
}

// Erases an entry that is not an "other" set. The caller handles its handles.
void Family::erase(Index entry) {
    index_.erase(entries_[entry].labels.get());
    if (entries_[entry].shown) {
        shown(entries_[entry].level)--;
    } else {
        counts_.candidates--;
    }
    entries_[entry] = {};
    exemplars_.erase(entry);
    std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(entry * stride_), stride_, 0);
    free_entries_.push_back(entry);
}

Slot Family::handle_of(Index entry) {
    Index &first = entries_[entry].first_handle;
    if (first != none) {
        return Slot{first};
    }
    if (handles_.free.empty()) {
        first = static_cast<Index>(handles_.cells.size());
        handles_.cells.emplace_back();
        handles_.owners.emplace_back();
        handles_.next.emplace_back();
    } else {
        first = handles_.free.back();
        handles_.free.pop_back();
    }
    handles_.cells[first] = static_cast<std::uint32_t>(entry * stride_);
    handles_.owners[first] = entries_[entry].owner;
    handles_.next[first] = none;
    return Slot{first};
}

void Family::observe(Slot slot, std::uint64_t value, std::uint64_t times) {
    const auto &bounds = description_->bounds;
    // A bucket holds the values up to and including its bound.
    const auto bucket = std::ranges::lower_bound(bounds, value) - bounds.begin();
    std::uint64_t *values = &values_[cell(slot)];
    values[bucket] += times;
    values[bounds.size() + 1] += value * times;
}

void Family::set_exemplar(Slot slot, Exemplar exemplar) {
    if (is_off()) {
        return;
    }
    const auto entry = static_cast<Index>(cell(slot) / stride_);
    // A folded set has many observations: an exemplar of one would not represent it.
    if (!entries_[entry].shown || entries_[entry].level == Level::other) {
        return;
    }
    auto &last = exemplars_[entry];
    if (last == nullptr || last->at <= exemplar.at) {
        last = std::make_shared<const Exemplar>(std::move(exemplar));
    }
}

void Family::observe_all(Slot slot, std::span<const std::uint64_t> counts) {
    std::uint64_t *values = &values_[cell(slot)];
    for (std::size_t i = 0; i < std::min(stride_, counts.size()); i++) {
        values[i] += counts[i];
    }
}

void Family::remove(Owner owner) {
    if (owner == nobody) {
        return;
    }
    settle();
    for (Index entry = 0; entry < entries_.size(); entry++) {
        if (entries_[entry].labels != nullptr && entries_[entry].owner == owner) {
            erase(entry);
        }
    }
    for (Index handle = 0; handle < handles_.cells.size(); handle++) {
        if (handles_.owners[handle] == owner) {
            handles_.owners[handle] = nobody;
            handles_.free.push_back(handle);
        }
    }
}

void Family::remove_if(const std::function<bool(const LabelValues &)> &is_gone) {
    settle();
    for (Index entry = 0; entry < entries_.size(); entry++) {
        if (entries_[entry].labels == nullptr || entries_[entry].level == Level::other ||
            !is_gone(*entries_[entry].labels)) {
            continue;
        }
        for (Index handle = entries_[entry].first_handle; handle != none;
             handle = handles_.next[handle]) {
            handles_.owners[handle] = nobody;
            handles_.free.push_back(handle);
        }
        erase(entry);
    }
}

Family::Index Family::shown_ancestor(Index entry) const {
    while (!entries_[entry].shown) {
        entry = entries_[entry].parent;
    }
    return entry;
}

FamilySnapshot Family::snapshot() const {
    FamilySnapshot snapshot{description_, stride_, {}, values_};
    if (counts_.candidates > 0) {  // of a counter, so with one value each
        for (Index entry = 0; entry < entries_.size(); entry++) {
            if (entries_[entry].labels != nullptr && !entries_[entry].shown) {
                snapshot.values[shown_ancestor(entry)] += values_[entry];
            }
        }
    }
    snapshot.labels.reserve(size());
    auto end = snapshot.values.begin();
    for (std::size_t i = 0; i < entries_.size(); i++) {
        if (entries_[i].shown) {
            snapshot.labels.push_back(entries_[i].labels);
            if (!exemplars_.empty()) {
                const auto found = exemplars_.find(static_cast<Index>(i));
                snapshot.exemplars.push_back(found == exemplars_.end() ? nullptr : found->second);
            }
            const auto first = snapshot.values.begin() + static_cast<std::ptrdiff_t>(i * stride_);
            end = end == first ? first + static_cast<std::ptrdiff_t>(stride_)
                               : std::copy_n(first, stride_, end);
        }
    }
    snapshot.values.erase(end, snapshot.values.end());
    return snapshot;
}

}  // namespace gpusnoop::series
