// Calls of the NVIDIA driver's helpers, which a test module has in the guests of tests/vm.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/no_perf_events.h"
#include "tests/harness/probe_state.h"
#include "tests/harness/trace.h"

using namespace harness;

namespace {

const std::string nvlink_calls = "gpusnoop_nvlink_helper_calls_total";
const std::string nvlink_bytes = "gpusnoop_nvlink_helper_bytes_total";
const Labels of_nvlink = {{"probe", "nvlink"}};

void wait_until(const Exporter &exporter, bool up) {
    eventually(up ? "the probe to be up" : "the probe to be down", [&] {
        return exporter.scrape().sum("gpusnoop_probe_up", of_nvlink) == (up ? 1 : 0);
    });
    CHECK(exporter.scrape().sum("gpusnoop_probe_attached_functions", of_nvlink) == (up ? 3 : 0));
    CHECK(state_of(exporter.scrape(), "nvlink") == (up ? "up" : "unsupported"));
    const std::string front = http(exporter.port(), "/").body;
    CHECK((front.find("no NVIDIA driver with NVLink is loaded") == std::string::npos) == up);
}

}  // namespace

TEST_CASE("the driver's helpers are counted while the driver is loaded", "[.guest]") {
    const Exporter exporter(
        "nvlink: {enabled: true}\ndiscovery: {rescan_interval: 1s}\ncuda: {enabled: false}\n");
    wait_until(exporter, false);

    std::optional<TestModule> module(std::in_place);
    wait_until(exporter, true);
    module->command("strcpy 5 100");
    module->command("strcpy 2 0");
    module->command("strcpy 1 5000");  // longer than is looked at
    module->command("memcpy 7 1000");
    module->command("memcpy 1 0");
    module->command("memset 11 4096");
    Page page = exporter.wait_for(nvlink_calls, {}, 5 + 2 + 1 + 7 + 1 + 11);
    CHECK(page.sum(nvlink_calls, {{"op", "strcpy"}, {"comm", "probes_tests"}}) == 8);
    CHECK(page.sum(nvlink_bytes, {{"op", "strcpy"}}) == 5 * 101 + 2 * 1 + 4096);
    CHECK(page.sum(nvlink_calls, {{"op", "memcpy"}}) == 8);
    CHECK(page.sum(nvlink_bytes, {{"op", "memcpy"}}) == 7000);
    CHECK(page.sum(nvlink_calls, {{"op", "memset"}}) == 11);
    CHECK(page.sum(nvlink_bytes, {{"op", "memset"}}) == 11 * 4096);
    CHECK(page.sum("gpusnoop_nvlink_helper_duration_seconds_count", {{"op", "memset"}}) == 11);
    CHECK(page.sum("gpusnoop_nvlink_helper_duration_seconds_sum", {{"op", "memset"}}) > 0);
    CHECK(page.sum("gpusnoop_probe_entries_total", of_nvlink) == 27);
    CHECK(page.sum("gpusnoop_probe_events_total", of_nvlink) == 27);
    CHECK(page.sum("gpusnoop_probe_unmatched_returns_total", of_nvlink) == 0);

    // A driver that is loaded again has its helpers elsewhere.
    module.reset();
    wait_until(exporter, false);
    module.emplace();
    wait_until(exporter, true);
    module->command("memcpy 3 10");
    page = exporter.wait_for(nvlink_calls, {{"op", "memcpy"}}, 8 + 3);
    CHECK(page.sum(nvlink_bytes, {{"op", "memcpy"}}) == 7030);
}

TEST_CASE("helpers of the driver are counted without perf events", "[.guest]") {
    const NoPerfEvents refused;
    const TestModule module;
    const Exporter exporter("nvlink: {enabled: true}\ncuda: {enabled: false}\n",
                            NoPerfEvents::starter());
    wait_until(exporter, true);
    module.command("strcpy 5 100");
    module.command("memset 11 4096");
    const Page page = exporter.wait_for(nvlink_calls, {}, 5 + 11);
    CHECK(page.sum(nvlink_bytes, {{"op", "strcpy"}, {"comm", "probes_tests"}}) == 5 * 101);
    CHECK(page.sum(nvlink_bytes, {{"op", "memset"}, {"comm", "probes_tests"}}) == 11 * 4096);
    CHECK(page.sum("gpusnoop_probe_unmatched_returns_total", of_nvlink) == 0);
}

TEST_CASE("each call of the driver's helpers is a line of the trace", "[.guest]") {
    Trace trace("nvlink", "discovery: {rescan_interval: 1s}\n", {"--comm=probes_*"});
    trace.process().wait_for_output("no NVIDIA driver with NVLink is loaded");
    const TestModule module;
    trace.process().wait_for_output("msg=\"attached\" probe=nvlink functions=3");
    module.command("strcpy 1 100");
    module.command("memcpy 2 1000");
    module.command("memset 1 4096");
    const auto lines = trace.finish();
    const std::pair<std::string, int> expected[] = {{"nvlink_strcpy", 101},
                                                    {"nvlink_memcpy", 1000},
                                                    {"nvlink_memcpy", 1000},
                                                    {"nvlink_memset", 4096}};
    REQUIRE(lines.size() == std::size(expected));
    for (std::size_t i = 0; i < lines.size(); i++) {
        CAPTURE(lines[i].dump());
        CHECK(lines[i]["function"] == expected[i].first);
        CHECK(lines[i]["bytes"] == expected[i].second);
        CHECK(lines[i]["pid"] == ::getpid());
        CHECK(lines[i]["tid"] == ::gettid());
        CHECK(lines[i]["comm"] == "probes_tests");
        CHECK(lines[i]["duration_ns"] > 0);
    }
}
