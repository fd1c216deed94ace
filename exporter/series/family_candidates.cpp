// Decides which label sets a family shows when its budget is too small for all.
#include <algorithm>
#include <tuple>

#include "exporter/series/family.h"
#include "exporter/series/top_n.h"

namespace gpusnoop::series {

namespace {

// A swap restarts a counter at 0, so swaps are few and must be worth it.
constexpr std::size_t max_swaps = 16;
constexpr std::uint64_t least_weight = 64;
constexpr std::uint64_t times_as_heavy = 8;

// Rounded up, so that a set without additions reaches 0.
std::uint64_t faded(std::uint64_t weight) {
    return weight - (weight + 7) / 8;
}

}  // namespace

// Moves the counts of candidates to the shown sets that include them, and all new counts into the
// weights. Nothing changes on the page; candidates are at 0 after it.
void Family::settle() {
    if (counts_.candidates == 0) {
        return;
    }
    for (Index i = 0; i < entries_.size(); i++) {
        const std::uint64_t amount = values_[i];
        if (entries_[i].labels == nullptr || entries_[i].shown || amount == 0) {
            continue;
        }
        values_[i] = 0;
        Index at = i;
        for (; !entries_[at].shown; at = entries_[at].parent) {
            entries_[at].weight += amount;
        }
        values_[at] += amount;
    }
    for (Index i = 0; i < entries_.size(); i++) {
        if (entries_[i].shown) {
            entries_[i].weight += values_[i] - entries_[i].weighed;
            entries_[i].weighed = values_[i];
        }
    }
}

// Makes room for new candidates: forgets a quarter of them together, so that each costs little.
void Family::forget_lightest() {
    settle();
    std::vector<std::tuple<std::uint64_t, std::uint32_t, Index>> lightest;  // the oldest of them
    lightest.reserve(counts_.candidates);
    for (Index i = 0; i < entries_.size(); i++) {
        if (entries_[i].labels != nullptr && !entries_[i].shown) {
            lightest.emplace_back(entries_[i].weight, entries_[i].born, i);
        }
    }
    const std::size_t count =
        std::min(lightest.size(), std::max<std::size_t>(2, counts_.candidates / 4));
    std::ranges::nth_element(lightest, lightest.begin() + static_cast<std::ptrdiff_t>(count));
    lightest.resize(count);

    std::vector<bool> leaves(entries_.size());
    for (const auto &[weight, born, entry] : lightest) {
        leaves[entry] = true;
    }
    const auto staying = [&](Index entry) {
        while (leaves[entry]) {
            entry = entries_[entry].parent;
        }
        return entry;
    };
    for (Entry &entry : entries_) {
        if (entry.labels != nullptr && !entry.shown) {
            entry.parent = staying(entry.parent);
        }
    }
    for (const auto &[weight, born, entry] : lightest) {
        const Index parent = entries_[entry].parent;
        for (Index handle = entries_[entry].first_handle; handle != none;) {
            const Index next = handles_.next[handle];
            handles_.cells[handle] = parent;  // a counter has one value
            if (entries_[parent].level != Level::other) {
                handles_.next[handle] = entries_[parent].first_handle;
                entries_[parent].first_handle = handle;
            }
            handle = next;
        }
    }
    for (const auto &[weight, born, entry] : lightest) {
        erase(entry);
    }
}

void Family::rebalance() {
    if (counts_.candidates == 0) {
        return;
    }
    for (Entry &entry : entries_) {
        entry.weight = faded(entry.weight);
    }
    settle();
    // Full sets first: a demoted full set goes into the coarse sets as they are now.
    const std::size_t swaps = swap(Level::full, max_swaps);
    swap(Level::coarse, max_swaps - swaps);
}

// Returns the number of swaps. Candidates are at 0: settle() came before.
std::size_t Family::swap(Level level, std::size_t at_most) {
    TopN<max_swaps> heavy;
    TopN<max_swaps> light;  // by the complement of the weight
    for (Index i = 0; i < entries_.size(); i++) {
        const Entry &entry = entries_[i];
        if (entry.labels == nullptr || entry.level != level) {
            continue;
        }
        if (entry.shown) {
            light.offer(~entry.weight, i);
        } else if (entry.weight > 0) {
            heavy.offer(entry.weight, i);
        }
    }
    const auto candidates = heavy.descending();
    const auto places = light.descending();
    std::size_t swaps = 0;
    std::size_t taken = 0;
    for (const auto &[weight, candidate] : candidates.first(std::min(at_most, candidates.size()))) {
        if (shown(level) >= limit(level)) {
            if (taken == places.size() || weight < least_weight ||
                weight / times_as_heavy < ~places[taken].weight) {
                break;
            }
            demote(places[taken++].entry);
        }
        promote(candidate);
        swaps++;
    }
    return swaps;
}

// The weight of a set shown on its own is not part of its parent's.
void Family::promote(Index entry) {
    Entry &promoted = entries_[entry];
    std::uint64_t &above = entries_[promoted.parent].weight;
    above -= std::min(above, promoted.weight);
    promoted.parent = none;
    promoted.shown = true;
    promoted.weighed = 0;
    shown(promoted.level)++;
    counts_.candidates--;
}

void Family::demote(Index entry) {
    const auto labels = entries_[entry].labels;
    const Index parent = parent_of(entries_[entry].owner, *labels, entries_[entry].level);
    Entry &demoted = entries_[entry];
    entries_[parent].weight += demoted.weight;
    demoted.parent = parent;
    demoted.shown = false;
    exemplars_.erase(entry);
    shown(demoted.level)--;
    counts_.candidates++;
    const Index at = shown_ancestor(parent);
    values_[at] += values_[entry];
    entries_[at].weighed += values_[entry];  // already in its weight
    values_[entry] = 0;
}

}  // namespace gpusnoop::series
