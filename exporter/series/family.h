// One metric family: its label sets and their values, with a budget on how many are shown.
//
// A process gets a slot for each of its label sets once; from then on, counting an event is an
// addition without an allocation. Beyond its budget, a family shows the heaviest label sets, and
// the others as `other`.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpusnoop::series {

enum class Type { counter, gauge, histogram };

struct Label {
    std::string name;
    // A bounded label has few values by its nature (kind, mode, gpu): it keeps its value when
    // folded.
    bool bounded = false;
    // A detail (grid, block) is folded first; only sets that still do not fit lose all their
    // unbounded labels. A family with details keeps half of its budget for label sets without them.
    bool detail = false;
};

struct Description {
    std::string name;
    std::string help;  // one sentence, no line breaks
    Type type = Type::counter;
    std::vector<Label> labels;
    // Values are counted in integers of a raw unit and shown divided by this: nanoseconds by 1e9.
    // (A division by a power of ten rounds to the number that people write; 1e-9 times does not.)
    double divisor = 1.0;
    // Histograms: upper bounds in the raw unit, ascending, without +Inf.
    std::vector<std::uint64_t> bounds = {};
};

using LabelValues = std::vector<std::string>;

// All label sets of an owner are removed together. Owner 0 is never removed.
using Owner = std::uint32_t;

// A handle of a label set of one family; valid until its owner is removed, whether the set is shown
// or folded.
enum class Slot : std::uint32_t {};

// One observation behind a value, for a closer look. For short texts: the page leaves out an
// exemplar with more than 128 characters.
struct Exemplar {
    std::vector<std::pair<std::string, std::string>> labels;
    double value = 0;                // in base units
    std::chrono::nanoseconds at{0};  // CLOCK_REALTIME
};

// All values of a family at one moment. `values` has `stride` numbers per label set: 1, or for a
// histogram one count per bucket (not cumulative, +Inf last) and then the sum; all in the raw unit.
struct FamilySnapshot {
    std::shared_ptr<const Description> description;
    std::size_t stride = 1;
    std::vector<std::shared_ptr<const LabelValues>> labels;
    std::vector<std::uint64_t> values;
    // Empty, or one for each label set; null for a set without one.
    std::vector<std::shared_ptr<const Exemplar>> exemplars = {};
};

// Over its budget, a family folds new label sets into sets with "other" in their unbounded labels.
//
// Gauges and histograms never change between shown and folded. A counter's folded sets are
// candidates: they are counted on their own, too, and rebalance() replaces the lightest shown sets
// with the heaviest candidates. A set's count from before it was shown stays in "other", and its
// count while shown goes there when it is replaced, so the family's sum is exact and "other" never
// decreases. A set that is shown again starts at 0, which Prometheus correctly treats as a counter
// reset.
//
// Not thread-safe: the aggregating thread owns it.
class Family {
public:
    // `budget`: how many label sets are shown, without the "other" sets. The limit for candidates
    // is four times as many. Over it, the lightest are forgotten: their handles count as "other"
    // from then on, until the label set is requested again. 0: the family is off. It shows nothing,
    // and all its label sets have one handle, so that its users need not ask.
    Family(Description description, std::uint32_t budget);

    // The label set's handle, made at the first request with the value 0. `values` are in the order
    // of the description's labels.
    Slot slot(Owner owner, const LabelValues &values);

    void add(Slot slot, std::uint64_t amount) { values_[cell(slot)] += amount; }
    void observe(Slot slot, std::uint64_t value, std::uint64_t times = 1);
    // For histograms: adds values that were counted elsewhere, in a snapshot's form: one count per
    // bucket, and then their sum.
    void observe_all(Slot slot, std::span<const std::uint64_t> counts);
    // For gauges: label sets folded into the same set share one value.
    void set(Slot slot, std::uint64_t value) { values_[cell(slot)] = value; }
    // For counters and histograms: the last exemplar is shown, while the label set is shown on its
    // own.
    void set_exemplar(Slot slot, Exemplar exemplar);
    [[nodiscard]] std::uint64_t value(Slot slot) const { return values_[cell(slot)]; }

    // Replaces light shown sets with heavy candidates. Call it once a second: weights are recent
    // additions, and an eighth of a weight fades at each call. Does nothing within the budget.
    void rebalance();

    // Forgets every label set of the owner. The counts under "other" stay.
    void remove(Owner owner);

    // The same for single label sets, in a family without details. Handles of sets that were
    // forgotten over the limit stay valid: they lead to "other".
    void remove_if(const std::function<bool(const LabelValues &)> &is_gone);

    [[nodiscard]] FamilySnapshot snapshot() const;
    // Label sets in the snapshot.
    [[nodiscard]] std::size_t size() const { return index_.size() - counts_.candidates; }
    [[nodiscard]] std::size_t candidates() const { return counts_.candidates; }
    [[nodiscard]] bool is_off() const { return budget_ == 0; }
    // Label sets that did not fit, each counted when it was first met.
    [[nodiscard]] std::uint64_t folded() const { return counts_.folded; }
    [[nodiscard]] const Description &description() const { return *description_; }

private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(const LabelValues &values) const;
        std::size_t operator()(const LabelValues *values) const { return (*this)(*values); }
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const LabelValues *a, const LabelValues *b) const { return *a == *b; }
        bool operator()(const LabelValues &a, const LabelValues *b) const { return a == *b; }
        bool operator()(const LabelValues *a, const LabelValues &b) const { return *a == b; }
    };

    using Index = std::uint32_t;  // of an entry, or of a handle
    static constexpr Index none = ~Index{0};

    // How much of a label set is kept: all of it, all but its details, only its bounded labels.
    enum class Level : std::uint8_t { full, coarse, other };

    // A label set. The values of a set that is not shown are part of its nearest shown ancestor's:
    // full sets have a coarse or an "other" set above them, coarse sets an "other" set, and "other"
    // sets are always shown.
    struct Entry {
        std::shared_ptr<const LabelValues> labels;  // null: free
        Owner owner = 0;
        Level level = Level::full;
        bool shown = false;
        Index parent = none;        // set while it is not shown
        Index first_handle = none;  // an "other" set lists only some: it is never removed
        std::uint32_t born = 0;
        std::uint64_t weight = 0;
        std::uint64_t weighed = 0;  // the part of its value that is in its weight; while shown
    };

    [[nodiscard]] std::size_t cell(Slot slot) const {
        return handles_.cells[static_cast<std::size_t>(slot)];
    }
    [[nodiscard]] std::uint32_t limit(Level level) const;
    [[nodiscard]] std::uint32_t &shown(Level level) {
        return counts_.shown[level == Level::coarse];
    }
    [[nodiscard]] std::size_t max_candidates() const { return std::size_t{4} * budget_; }
    [[nodiscard]] std::size_t max_handles() const;
    [[nodiscard]] Level level_of(const LabelValues &values) const;
    [[nodiscard]] LabelValues fold(const LabelValues &values, Level to) const;
    [[nodiscard]] Index shown_ancestor(Index entry) const;

    Index insert(Owner owner, const LabelValues &values, Level level, bool is_shown);
    void erase(Index entry);
    Slot handle_of(Index entry);
    Index other_of(const LabelValues &values);
    Index parent_of(Owner owner, const LabelValues &values, Level level);

    // family_candidates.cpp
    void settle();
    void forget_lightest();
    std::size_t swap(Level level, std::size_t at_most);
    void promote(Index entry);
    void demote(Index entry);

    std::shared_ptr<const Description> description_;
    std::uint32_t budget_;
    std::size_t stride_;
    bool has_details_ = false;
    bool promotes_ = false;
    struct Counts {
        std::array<std::uint32_t, 2> shown{};  // full and coarse sets
        std::size_t candidates = 0;
        std::uint32_t births = 0;
        std::uint64_t folded = 0;
    };
    Counts counts_;

    std::unordered_map<const LabelValues *, Index, Hash, Equal> index_;  // the entries' own labels
    std::vector<Entry> entries_;
    std::vector<Index> free_entries_;
    std::vector<std::uint64_t> values_;  // `stride_` for each entry
    std::unordered_map<Index, std::shared_ptr<const Exemplar>> exemplars_;  // of entries

    struct Handles {
        // By handle: where its entry's values are, whose it is, and the entry's next handle.
        std::vector<std::uint32_t> cells;
        std::vector<Owner> owners;
        std::vector<Index> next;
        std::vector<Index> free;
    };
    Handles handles_;
};

}  // namespace gpusnoop::series
