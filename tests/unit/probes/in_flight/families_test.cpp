// Calls in flight -> gauges.
#include "exporter/probes/in_flight/calls.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/probes/in_flight/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

constexpr std::uint64_t ns_per_second = 1'000'000'000;

struct OpenCallGauges {
    explicit OpenCallGauges(std::uint32_t budget = 2'000)
        : set([budget](std::string_view) { return budget; }, true),
          families(make_in_flight_gauges(set)) {}

    [[nodiscard]] std::map<series::LabelValues, std::uint64_t> values(std::size_t family) const {
        const series::FamilySnapshot snapshot = set.snapshots().at(family);
        std::map<series::LabelValues, std::uint64_t> values;
        for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
            values[*snapshot.labels[i]] = snapshot.values[i];
        }
        return values;
    }

    series::FamilySet set;
    InFlightGauges families;
};

series::LabelValues labels_of_calls(const std::string &function, const std::string &pid = "42") {
    return {"python3", "train.py", "", "", pid, "libcudart.so.12", function};
}

}  // namespace

TEST_CASE("calls in flight are counted by process and function, with the age of the oldest") {
    OpenCallGauges gauges;
    OpenCall other = call_in_flight("cudaFree", 9, 4 * ns_per_second);
    other.pid = 43;
    const std::vector<OpenCall> calls = {call_in_flight("cudaFree", 7, 8 * ns_per_second),
                                         call_in_flight("cudaFree", 8, 3 * ns_per_second), other,
                                         call_in_flight("cudaMalloc", 10, 11 * ns_per_second)};
    add_in_flight(gauges.families, {calls}, 10 * ns_per_second);
    CHECK(gauges.values(0) ==
          std::map<series::LabelValues, std::uint64_t>{{labels_of_calls("cudaFree"), 2},
                                                       {labels_of_calls("cudaFree", "43"), 1},
                                                       {labels_of_calls("cudaMalloc"), 1}});
    // A call cannot be younger than nothing, whatever its clock says.
    CHECK(gauges.values(1) == std::map<series::LabelValues, std::uint64_t>{
                                  {labels_of_calls("cudaFree"), 7 * ns_per_second},
                                  {labels_of_calls("cudaFree", "43"), 6 * ns_per_second},
                                  {labels_of_calls("cudaMalloc"), 0}});
}

TEST_CASE("the oldest call of a Python program has the lines that made it") {
    OpenCallGauges gauges;
    const std::vector<OpenCall> calls = {call_in_flight("cudaFree", 7, 8 * ns_per_second),
                                         call_in_flight("cudaFree", 8, 3 * ns_per_second),
                                         call_in_flight("cudaMalloc", 9, 2 * ns_per_second)};
    add_in_flight(gauges.families, {calls}, 10 * ns_per_second, [](const OpenCall &call) {
        return call.tid == 9 ? "" : "train.py:step:" + std::to_string(call.tid);
    });
    series::LabelValues values = labels_of_calls("cudaFree");
    values.emplace_back("train.py:step:8");
    CHECK(gauges.values(2) == std::map<series::LabelValues, std::uint64_t>{{values, 1}});
    // A younger call's lines are not the oldest's.
    OpenCallGauges unknown;
    add_in_flight(unknown.families, {calls}, 10 * ns_per_second,
                  [](const OpenCall &call) { return call.tid == 7 ? "train.py:step:7" : ""; });
    CHECK(unknown.values(2).empty());
}

TEST_CASE("calls that are not listed are counted, and can be the oldest") {
    OpenCallGauges gauges;
    const OpenCall call = call_in_flight("cudaFree", 7, 8 * ns_per_second);
    MoreCalls more;
    static_cast<processes::ProcessNames &>(more) = call;
    more.pid = call.pid;
    more.library = call.library;
    more.function = call.function;
    more.count = 75'904;
    more.oldest_ns = 3 * ns_per_second;
    add_in_flight(gauges.families, {.calls = {call}, .more = {more}}, 10 * ns_per_second);
    CHECK(gauges.values(0) ==
          std::map<series::LabelValues, std::uint64_t>{{labels_of_calls("cudaFree"), 75'905}});
    CHECK(gauges.values(1) == std::map<series::LabelValues, std::uint64_t>{
                                  {labels_of_calls("cudaFree"), 7 * ns_per_second}});
}

TEST_CASE("calls over the budget are counted as other, whose age is the oldest's") {
    OpenCallGauges gauges(2);
    std::vector<OpenCall> calls;
    for (std::uint32_t i = 0; i < 10; i++) {
        calls.push_back(call_in_flight("f" + std::to_string(i), i, i * ns_per_second));
    }
    add_in_flight(gauges.families, {calls}, 100 * ns_per_second);
    std::uint64_t all = 0;
    for (const auto &[values, count] : gauges.values(0)) {
        all += count;
    }
    CHECK(all == 10);
    std::uint64_t oldest = 0;
    for (const auto &[values, age] : gauges.values(1)) {
        oldest = std::max(oldest, age);
    }
    CHECK(oldest == 100 * ns_per_second);
    CHECK(gauges.values(0).size() <= 3);
}
