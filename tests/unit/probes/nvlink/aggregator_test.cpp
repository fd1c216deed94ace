// What comes of records of the NVIDIA driver's helpers.
#include "exporter/probes/nvlink/aggregator.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "tests/unit/probes/driver_records.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

nvlink_record call(std::uint32_t op, std::uint64_t bytes, std::uint64_t duration_ns,
                   const char *comm = "nvidia-persiste") {
    nvlink_record record{};
    record.op = op;
    record.bytes = bytes;
    record.duration_ns = duration_ns;
    record.tgid = 0x7fffffff;
    record.identity = identity_of(comm, 5);
    return record;
}

}  // namespace

TEST_CASE("calls of the driver's helpers are counted by what they do") {
    const series::Budget any = [](std::string_view) { return 1000U; };
    NvlinkAggregator aggregator({.budget = any, .retention = 1min});
    aggregator.on_record(call(NVLINK_STRCPY, 101, 90));
    aggregator.on_record(call(NVLINK_MEMCPY, 1000, 150));
    aggregator.on_record(call(NVLINK_MEMCPY, 24, 100));
    aggregator.on_record(call(NVLINK_MEMSET, 4096, 99'999'999, "modprobe"));
    using Values = std::map<series::LabelValues, std::vector<std::uint64_t>>;
    const series::LabelValues copies = {"nvidia-persiste", "", "", "", "memcpy"};
    const series::LabelValues strings = {"nvidia-persiste", "", "", "", "strcpy"};
    const series::LabelValues sets = {"modprobe", "", "", "", "memset"};
    CHECK(values_of(aggregator.families().snapshots(), "nvlink_helper_calls_total") ==
          Values{{copies, {2}}, {strings, {1}}, {sets, {1}}});
    CHECK(values_of(aggregator.families().snapshots(), "nvlink_helper_bytes_total") ==
          Values{{copies, {1024}}, {strings, {101}}, {sets, {4096}}});
    const auto durations =
        values_of(aggregator.families().snapshots(), "nvlink_helper_duration_seconds");
    CHECK(durations.at(copies) == std::vector<std::uint64_t>{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 250});
    CHECK(durations.at(sets) ==
          std::vector<std::uint64_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 99'999'999});

    aggregator.processes().scan(1s);
    aggregator.processes().scan(2s);
    (void)aggregator.processes().tidy(1h);
    CHECK(values_of(aggregator.families().snapshots(), "nvlink_helper_calls_total").empty());
}
