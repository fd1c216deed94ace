#include "exporter/probes/fence/aggregator.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "exporter/base/result.h"
#include "exporter/ebpf/attach/kernel_hooks.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using std::chrono::seconds;

namespace {

std::span<const std::byte> fence_bytes_of(const auto &record) {
    return std::as_bytes(std::span(&record, 1));
}

struct FenceFixture {
    FenceAggregator aggregator{{.budget = [](std::string_view) { return 10U; },
                                .retention = seconds(60),
                                .look_up = [](ProcessIdentity &) { return true; }}};

    void start(std::uint32_t tgid, const char *comm) {
        traced_start_record record{};
        record.head = {1, 1, tgid, PROCESS_STARTED};
        std::strncpy(record.identity.comm, comm, sizeof(record.identity.comm) - 1);
        CHECK(aggregator.on_record(fence_bytes_of(record)));
    }
    void happen(std::uint32_t tgid, fence_event event, const std::string &timeline,
                std::uint64_t nanoseconds = 0) {
        fence_record record{};
        record.head = {2, tgid == 0 ? 0U : 1U, tgid, FENCE_RECORD + static_cast<unsigned>(event)};
        record.has_duration = nanoseconds > 0 ? 1 : 0;
        record.nanoseconds = nanoseconds;
        std::memcpy(record.names.driver, "vgem", 4);
        std::memcpy(record.names.timeline, timeline.data(),
                    std::min(timeline.size(), sizeof(record.names.timeline)));
        CHECK(aggregator.on_record(fence_bytes_of(record)));
    }
    [[nodiscard]] std::uint64_t sum(const std::string &family,
                                    const std::vector<std::string> &with) const {
        std::uint64_t sum = 0;
        for (const auto &snapshot : aggregator.families().snapshots()) {
            for (std::size_t i = 0;
                 snapshot.description->name == "gpusnoop_" + family && i < snapshot.labels.size();
                 i++) {
                const auto &labels = *snapshot.labels[i];
                const bool has_all = std::ranges::all_of(with, [&](const std::string &value) {
                    return std::ranges::find(labels, value) != labels.end();
                });
                const std::size_t values = snapshot.stride == 1 ? 1 : snapshot.stride - 1;
                for (std::size_t j = 0; has_all && j < values; j++) {
                    sum += snapshot.values[i * snapshot.stride + j];
                }
            }
        }
        return sum;
    }
};

}  // namespace

TEST_CASE("events of fences are counted by driver, timeline and event, and timed") {
    FenceFixture fixture;
    fixture.start(7, "prog");
    fixture.happen(7, FENCE_init, "a");
    fixture.happen(7, FENCE_init, "a");
    fixture.happen(7, FENCE_signaled, "a", 5000);
    fixture.happen(7, FENCE_signaled, "a");
    fixture.happen(7, FENCE_wait_start, "b");
    fixture.happen(7, FENCE_wait_end, "b", 1000);
    fixture.happen(0, FENCE_destroy, "c");
    CHECK(fixture.sum("dma_fence_events_total", {"prog", "vgem", "a", "init"}) == 2);
    CHECK(fixture.sum("dma_fence_events_total", {"prog", "vgem", "a", "signaled"}) == 2);
    CHECK(fixture.sum("dma_fence_events_total", {"prog", "vgem", "b", "wait_start"}) == 1);
    CHECK(fixture.sum("dma_fence_events_total", {"prog", "vgem", "b", "wait_end"}) == 1);
    CHECK(fixture.sum("dma_fence_events_total", {"unknown", "vgem", "c", "destroy"}) == 1);
    CHECK(fixture.sum("dma_fence_wait_duration_seconds", {"prog", "vgem"}) == 1);
    CHECK(fixture.sum("dma_fence_signal_latency_seconds", {"prog", "vgem"}) == 1);
}

TEST_CASE("a timeline for each fence costs no more series than the budget, and no count") {
    FenceFixture fixture;
    fixture.start(7, "prog");
    for (int i = 0; i < 100; i++) {
        fixture.happen(7, FENCE_emit, "timeline " + std::to_string(i));
    }
    CHECK(fixture.sum("dma_fence_events_total", {}) == 100);
    CHECK(fixture.sum("dma_fence_events_total", {"other", "emit"}) == 90);
    CHECK(fixture.aggregator.families().folded().at("gpusnoop_dma_fence_events_total") == 90);
    fixture.happen(7, FENCE_emit, "\xff\xfe" + std::string(70, 'x'));
    CHECK(fixture.sum("dma_fence_events_total", {}) == 101);
    fence_record wrong{};
    wrong.head.type = FENCE_RECORD + FENCE_EVENT_COUNT;
    CHECK(!fixture.aggregator.on_record(fence_bytes_of(wrong)));
    CHECK(!fixture.aggregator.on_record({}));
}

TEST_CASE("a process is known a while behind its end, when its files are closed") {
    FenceFixture fixture;
    fixture.start(7, "prog");
    fixture.happen(7, FENCE_init, "a");
    CHECK(fixture.aggregator.on_record(
        fence_bytes_of(traced_end_record{{1, 1, 7, PROCESS_ENDED}, 0, 0})));
    (void)fixture.aggregator.processes().tidy(seconds(5));
    fixture.happen(7, FENCE_destroy, "a");
    CHECK(fixture.sum("dma_fence_events_total", {"prog", "a", "destroy"}) == 1);
    (void)fixture.aggregator.processes().tidy(seconds(11));
    CHECK(fixture.sum("dma_fence_events_total", {"prog"}) == 2);
    (void)fixture.aggregator.processes().tidy(seconds(62));
    CHECK(fixture.sum("dma_fence_events_total", {}) == 0);
}

TEST_CASE("the fields of a tracepoint are read from its format") {
    const auto fields = ebpf::parse_tracepoint_format(
        "name: dma_fence_init\nID: 2193\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
        "\tfield:__data_loc char[] driver;\toffset:8;\tsize:4;\tsigned:0;\n"
        "\tfield:unsigned int context;\toffset:16;\tsize:4;\tsigned:0;\n"
        "\tfield:char comm[16];\toffset:24;\tsize:16;\tsigned:0;\n"
        "\tfield:no offset;\n\nprint fmt: \"driver=%s\", __get_str(driver)\n");
    CHECK(fields.size() == 4);
    CHECK(fields.at("driver").offset == 8);
    CHECK(fields.at("driver").size == 4);
    CHECK(fields.at("context").offset == 16);
    CHECK(fields.at("comm").size == 16);
    CHECK(ebpf::parse_tracepoint_format("").empty());
    // Also where tracefs is not mounted.
    CHECK(is_unsupported(ebpf::tracepoint_fields("dma_fence", "dma_fence_of_none").error()));
}
