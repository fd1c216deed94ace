// The functions that are traced, by the numbers that records have for them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/functions/count/nccl.h"
#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

// What calls of a function are shown as, and how they are counted.
struct FunctionInfo {
    std::string library;  // the file's name
    std::string group;
    std::string name;
    FunctionOptions options;
    std::optional<NcclFunction> nccl{};  // what its arguments say
    bool operator==(const FunctionInfo &) const = default;
};

using FunctionInfoPtr = std::shared_ptr<const FunctionInfo>;

// Each place that is probed has a number of its own, as what its calls count for may change. The
// discovery thread gives numbers and says what they stand for; the aggregating thread looks them
// up. What stands for something already changes only by the latter's apply(), so that calls that
// ended before are counted as what they were.
class FunctionIds {
public:
    struct Change {
        std::uint32_t number = 0;
        // Null: its calls do not count any more.
        FunctionInfoPtr function;
        // No record will have the number again: it may be given to something else.
        bool is_released = false;
        // Of a released one: as it is not configured any more, not as nobody uses the file.
        bool is_removed = false;
    };

    std::uint32_t add(FunctionInfo function);
    // All at once, after what is queued. Replaces what is queued for the same numbers.
    void change(std::vector<Change> changes);

    // Null for a number that was not given, or whose calls do not count any more.
    [[nodiscard]] FunctionInfoPtr find(std::uint32_t number) const;
    [[nodiscard]] bool is_given(std::uint32_t number) const;
    // All that calls count for now, in no order; the same may be there several times.
    [[nodiscard]] std::vector<FunctionInfoPtr> all() const;

    // How many changes have been queued so far.
    [[nodiscard]] std::uint64_t queued() const;
    // Applies the changes up to a count of queued(): all records that were sent before it was taken
    // must have been counted. What calls of the changed numbers counted for, without those of files
    // that nobody uses; nothing: no change.
    std::optional<std::vector<FunctionInfoPtr>> apply(std::uint64_t up_to);

private:
    struct Entry {
        FunctionInfoPtr function;
        bool is_given = false;
    };

    mutable std::mutex mutex_;
    std::vector<Entry> entries_;  // by number
    std::vector<std::uint32_t> free_;
    std::vector<std::pair<std::uint64_t, Change>> queue_;  // with the count when it was queued
    std::uint64_t queued_ = 0;
};

}  // namespace gpusnoop::probes
