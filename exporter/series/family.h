// One metric family: its label sets and their values, with a budget on how many there can be.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace gpusnoop::series {

enum class Type { counter, gauge, histogram };

struct Label {
    std::string name;
    // A bounded label has few values by its nature (kind, mode, gpu): it survives folding.
    bool bounded = false;
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

// Label sets with the same owner leave together. Owner 0 stays for ever.
using Owner = std::uint32_t;

// A label set of one family; valid until its owner is removed.
enum class Slot : std::uint32_t {};

// All values of a family at one moment. `values` has `stride` numbers per label set: 1, or for a
// histogram one count per bucket (not cumulative, +Inf last) and then the sum; all in the raw unit.
struct FamilySnapshot {
    std::shared_ptr<const Description> description;
    std::size_t stride = 1;
    std::vector<std::shared_ptr<const LabelValues>> labels;
    std::vector<std::uint64_t> values;
};

// Not thread-safe: the aggregating thread owns it.
class Family {
public:
    // `budget`: how many label sets; past it, new ones become "other" in their unbounded labels.
    Family(Description description, std::uint32_t budget);

    // The label set's place, made at its first mention with the value 0. `values` are in the order
    // of the description's labels.
    Slot slot(Owner owner, const LabelValues &values);

    void add(Slot slot, std::uint64_t amount) { values_[index(slot)] += amount; }
    void observe(Slot slot, std::uint64_t value);

    // Forgets every label set of the owner.
    void remove(Owner owner);

    [[nodiscard]] FamilySnapshot snapshot() const;
    [[nodiscard]] std::size_t size() const { return slots_.size(); }
    // Label sets that did not fit, each counted when it was first met.
    [[nodiscard]] std::uint64_t folded() const { return folded_; }
    [[nodiscard]] const Description &description() const { return *description_; }

private:
    struct Hash {
        std::size_t operator()(const LabelValues &values) const;
    };
    struct Entry {
        std::shared_ptr<const LabelValues> labels;  // null: free
        Owner owner = 0;
    };

    [[nodiscard]] std::size_t index(Slot slot) const {
        return static_cast<std::size_t>(slot) * stride_;
    }
    Slot insert(Owner owner, const LabelValues &values);
    [[nodiscard]] LabelValues fold(const LabelValues &values) const;

    std::shared_ptr<const Description> description_;
    std::uint32_t budget_;
    std::size_t stride_;
    std::uint32_t within_budget_ = 0;
    std::uint64_t folded_ = 0;
    std::unordered_map<LabelValues, Slot, Hash> slots_;
    std::vector<Entry> entries_;
    std::vector<Slot> free_;
    std::vector<std::uint64_t> values_;
};

}  // namespace gpusnoop::series
