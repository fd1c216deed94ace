// The traced functions, by their numbers in records.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/probes/functions/count/nccl_functions.h"
#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

// The labels of a function's calls, and how they are counted.
struct FunctionInfo {
    std::string library;  // the file's name
    std::string group;
    std::string name;
    FunctionOptions options;
    std::optional<NcclFunction> nccl{};  // the positions of its arguments
    bool operator==(const FunctionInfo &) const = default;
};

using FunctionInfoPtr = std::shared_ptr<const FunctionInfo>;

// Each attached address has its own number, as its calls may count as another function later. The
// discovery thread gives numbers and their functions; the aggregating thread looks them up. The
// function of a number changes only by apply() of the aggregating thread, so that calls that ended
// before count as the former function.
class FunctionIds {
public:
    struct Change {
        std::uint32_t number = 0;
        // Null: its calls no longer count.
        FunctionInfoPtr function;
        // No record will have the number again: another function may get it.
        bool is_released = false;
        // For a released one: it is no longer configured. False: no process uses the file.
        bool is_removed = false;
    };

    // `now` is on the monotonic clock.
    std::uint32_t add(FunctionInfo function, std::chrono::nanoseconds now = {});
    // All in one step, after the queued changes. Replaces queued changes of the same numbers.
    void change(std::vector<Change> changes);

    // Null for a number that was not given, or whose calls no longer count.
    [[nodiscard]] FunctionInfoPtr find(std::uint32_t number) const;
    [[nodiscard]] bool is_given(std::uint32_t number) const;
    // When the number was given, as add() was told. An open call that began before was of another
    // function: the probe at its end was detached.
    [[nodiscard]] std::chrono::nanoseconds given_at(std::uint32_t number) const;
    // All functions that calls count as now, in no order; some may be there several times.
    [[nodiscard]] std::vector<FunctionInfoPtr> all() const;

    // The number of changes queued so far.
    [[nodiscard]] std::uint64_t queued() const;
    // Applies the changes up to a count of queued(): all records that were sent before that count
    // must have been counted. Returns the former functions of the changed numbers, without those of
    // unused files; nothing: no change.
    std::optional<std::vector<FunctionInfoPtr>> apply(std::uint64_t up_to);

private:
    struct Entry {
        FunctionInfoPtr function;
        bool is_given = false;
        std::chrono::nanoseconds given_at{};
    };

    mutable std::mutex mutex_;
    std::vector<Entry> entries_;  // by number
    std::vector<std::uint32_t> free_;
    std::vector<std::pair<std::uint64_t, Change>> queue_;  // with the count when it was queued
    std::uint64_t queued_ = 0;
};

// A function of a file, by the offset of its entry.
struct FunctionPlace {
    FileId file;
    std::uint64_t entry = 0;

    auto operator<=>(const FunctionPlace &) const = default;
};

}  // namespace gpusnoop::probes
