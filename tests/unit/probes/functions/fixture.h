// The aggregator of functions without BPF: records as the kernel would send them, and what comes of
// them.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/metrics/page.h"
#include "exporter/probes/functions/count/aggregator.h"

namespace gpusnoop::probes {

inline constexpr std::uint32_t bench_pid = 42;
inline constexpr std::uint64_t bench_since = 1'000;
inline constexpr std::uint64_t second_ns = 1'000'000'000;

inline const FunctionOptions with_all = {
    .slow_threshold = std::chrono::microseconds(1),
    .buckets = {std::chrono::nanoseconds(100), std::chrono::microseconds(1)},
    .errors = ErrorKind::nonzero};

using Page = std::map<series::LabelValues, std::uint64_t>;
using Histograms = std::map<series::LabelValues, std::vector<std::uint64_t>>;

inline func_record head(std::uint32_t type, std::uint64_t ended_ns) {
    func_record record{};
    record.ended_ns = ended_ns;
    record.since_ns = bench_since;
    record.tgid = bench_pid;
    record.type = type;
    return record;
}

inline func_process_record process(std::string_view comm = "python") {
    func_process_record record{};
    record.head = head(FUNC_RECORD_PROCESS, bench_since);
    record.identity.ppid = 41;
    record.identity.uid = 4'000'000'000;  // no host has a name for it
    std::memcpy(record.identity.comm, comm.data(),
                std::min(comm.size(), sizeof(record.identity.comm)));
    return record;
}

inline func_exit_record exit_at(std::uint64_t ended_ns, std::uint64_t cost_ns = 0,
                                std::uint64_t run_ns = 0) {
    return {head(FUNC_RECORD_EXIT, ended_ns), cost_ns, run_ns};
}

// A call that returned.
inline func_call_record call(std::uint32_t function, std::uint64_t duration_ns = 1'000,
                             std::uint64_t result = 0, std::uint64_t ended_ns = 2'000) {
    func_call_record record{};
    record.head = head(FUNC_RECORD_RETURN, ended_ns);
    record.duration_ns = duration_ns;
    record.result = result;
    record.function = function;
    record.tid = bench_pid;
    return record;
}

inline func_call_record tail_call(func_call_record record) {
    record.head.type = FUNC_RECORD_TAIL_CALL;
    return record;
}

inline func_call_record entry(std::uint32_t function) {
    auto record = call(function, 0);
    record.head.type = FUNC_RECORD_ENTRY;
    return record;
}

// The record, of another process.
template <typename Record>
Record of(std::uint32_t pid, std::uint64_t since, Record record) {
    record.head.tgid = pid;
    record.head.since_ns = since;
    return record;
}

template <typename Record>
std::vector<std::byte> bytes_of(const Record &record) {
    const auto bytes = std::as_bytes(std::span(&record, 1));
    return {bytes.begin(), bytes.end()};
}

// Sample lines of the text that say the same series as one before.
inline std::vector<std::string> repeated_series(const std::string &text) {
    std::set<std::string> seen;
    std::vector<std::string> repeated;
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        const std::string line = text.substr(start, end - start);
        start = end + 1;
        if (line.starts_with('#')) {
            continue;
        }
        if (const auto series = line.substr(0, line.rfind(' ')); !seen.insert(series).second) {
            repeated.push_back(series);
        }
    }
    return repeated;
}

inline std::size_t count_of(const std::string &text, std::string_view part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        count++;
    }
    return count;
}

struct FunctionsFixture {
    explicit FunctionsFixture(FunctionsSettings settings)
        : aggregator(std::make_unique<FunctionsAggregator>(
              std::move(settings), table, [this](ProcessIdentity &identity) {
                  looked_up.push_back(identity.key);
                  const auto found = proc.find(identity.key.tgid);
                  if (found == proc.end()) {
                      return false;
                  }
                  if (identity.started == std::chrono::nanoseconds::zero()) {
                      identity.comm = found->second;
                  }
                  return true;
              })) {}
    explicit FunctionsFixture(std::uint32_t budget = 2'000, bool pid_label = false,
                              std::chrono::nanoseconds retention = std::chrono::minutes(1))
        : FunctionsFixture(FunctionsSettings{[budget](std::string_view) { return budget; },
                                             pid_label, retention}) {}

    std::uint32_t number(std::string name, FunctionOptions options = {},
                         std::string library = "libx.so.1", std::string group = "group") {
        return table.add(
            {std::move(library), std::move(group), std::move(name), std::move(options)});
    }
    template <typename Record>
    void tell(const Record &record) const {
        aggregator->on_record(std::as_bytes(std::span(&record, 1)));
    }

    // Of a family's label sets, all that a family has of them; no label set is there twice.
    [[nodiscard]] Histograms histograms(const std::string &name,
                                        std::chrono::nanoseconds now = {}) const {
        Histograms values;
        for (const auto &family : aggregator->report(now)) {
            if (family.description->name != "gpusnoop_" + name) {
                continue;
            }
            for (std::size_t i = 0; i < family.labels.size(); i++) {
                const std::uint64_t *const first = &family.values[i * family.stride];
                const bool is_new =
                    values.try_emplace(*family.labels[i], first, first + family.stride).second;
                CHECK(is_new);
            }
        }
        return values;
    }
    // Of counters and gauges.
    [[nodiscard]] Page page(const std::string &name, std::chrono::nanoseconds now = {}) const {
        Page values;
        for (const auto &[labels, numbers] : histograms(name, now)) {
            REQUIRE(numbers.size() == 1);
            values[labels] = numbers.front();
        }
        return values;
    }
    [[nodiscard]] std::uint64_t sum(const std::string &name) const {
        std::uint64_t sum = 0;
        for (const auto &[labels, value] : page(name)) {
            sum += value;
        }
        return sum;
    }
    [[nodiscard]] std::string text(std::chrono::nanoseconds now = {}) const {
        return metrics::write_page(metrics::Format::text, aggregator->report(now), {});
    }

    FunctionIds table;
    std::map<std::uint32_t, std::string> proc;  // what /proc says: names by process
    std::vector<ProcessKey> looked_up;
    std::unique_ptr<FunctionsAggregator> aggregator;
};

}  // namespace gpusnoop::probes
