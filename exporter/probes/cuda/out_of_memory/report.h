// The last refusals of GPU memory, for /api/v1/out_of_memory, the status page, sinks and the log.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/rate_limit.h"
#include "exporter/probes/cuda/out_of_memory/verdict.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/sinks/sinks.h"

namespace gpusnoop::probes {

inline constexpr std::string_view out_of_memory_page_name = "out_of_memory";
inline constexpr std::size_t max_kept_out_of_memory = 100;

// For the aggregating thread.
class OutOfMemoryHistory {
public:
    // Returns its number.
    std::uint64_t add(OutOfMemory event);
    // More refusals belong to that event, if it is still kept.
    void add_to(std::uint64_t number, std::uint64_t count, std::chrono::nanoseconds last);

    // The newest first.
    [[nodiscard]] std::vector<OutOfMemory> list() const;
    [[nodiscard]] OutOfMemoryOverview overview() const;

private:
    std::deque<OutOfMemory> events_;  // the newest last
    std::uint64_t count_ = 0;         // of all since the start: the number of the next
};

// One object on one line, as in the document, for sinks: {"event":"out_of_memory",...}.
[[nodiscard]] std::string out_of_memory_line(const OutOfMemory &event);

// docs/api.md describes the parameters and the members.
[[nodiscard]] ApiPage out_of_memory_page(std::vector<OutOfMemory> all);

// Tells the log and the sinks of each event. Programs must not fill the log.
class OutOfMemoryReporter {
public:
    explicit OutOfMemoryReporter(sinks::SinksPtr sinks) : sinks_(std::move(sinks)) {}

    void report(const OutOfMemory &event);

private:
    sinks::SinksPtr sinks_;  // null: there are none
    RateLimit lines_{10};
};

}  // namespace gpusnoop::probes
