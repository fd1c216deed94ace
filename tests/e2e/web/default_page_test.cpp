// What the page has by default, and what it does not have.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/registry.h"
#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"
#include "truth_reader.h"

using namespace harness;

namespace {

constexpr auto default_page_probes =
    "functions: {enabled: true}\nin_flight: {enabled: true}\nxid: {enabled: true}\n"
    "pcie: {enabled: true}\nnvlink: {enabled: true}\n"
    "host: {time: {enabled: true}, life: {enabled: true}, tasks: {enabled: true}, "
    "pressure: {enabled: true}, memory: {enabled: true}, net: {enabled: true}}\n";

Process default_page_workload(const Exporter &exporter, const TemporaryDirectory &directory) {
    Process workload({standin("workload"), "--iterations", "200", "--hold", "--name", "counted"},
                     {{"STANDIN_TRUTH_DIR", directory.path().string()}});
    workload.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(directory.path()));
    (void)exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "counted"}},
                            number(truth.all_launches()));
    return workload;
}

// Keeps the libraries in use, so that they are attached to.
Process default_page_holder(const Exporter &exporter) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    return holder;
}

std::set<std::string> default_page_histograms(const Page &page) {
    std::set<std::string> on;
    for (const std::string &name : gpusnoop::probes::all_histograms()) {
        if (page.has(name + "_count")) {
            on.insert(name);
        }
    }
    return on;
}

// An exponent of a number.
bool default_page_exponent(const std::string &text) {
    for (std::size_t at = 1; at + 1 < text.size(); at++) {
        if (text[at] == 'e' && (text[at + 1] == '-' || text[at + 1] == '+') &&
            std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

TEST_CASE("the default page has what rules need, and no count that a probe cannot have",
          "[e2e][core]") {
    require_bpf();
    const Exporter exporter(std::string("# histograms: by default\n") + default_page_probes);
    const TemporaryDirectory directory;
    const Process holder = default_page_holder(exporter);
    const Process workload = default_page_workload(exporter, directory);
    eventually("the reading of launch gaps", [&] {
        return exporter.scrape().has("gpusnoop_host_launch_gap_seconds_count",
                                     {{"comm", "counted"}});
    });
    const std::string text = http(exporter.port(), "/metrics").body;
    const Page page(text);

    const std::set<std::string> on = default_page_histograms(page);
    const auto names = gpusnoop::probes::HistogramsConfig().names;
    CHECK(std::ranges::includes(std::set(names.begin(), names.end()), on));
    for (const std::string name :
         {"gpusnoop_cuda_memcpy_bandwidth_bytes_per_second",
          "gpusnoop_cuda_kernel_launch_duration_seconds", "gpusnoop_host_launch_gap_seconds",
          "gpusnoop_function_duration_seconds"}) {
        CAPTURE(name);
        CHECK(on.contains(name));
    }
    for (const std::string name : {"gpusnoop_cuda_memcpy_total", "gpusnoop_cuda_memory_frees_total",
                                   "gpusnoop_host_cpu_seconds_total", "gpusnoop_process_info"}) {
        CAPTURE(name);
        CHECK(page.has(name, {{"comm", "counted"}}));
    }

    const std::string lost = "gpusnoop_probe_events_lost_total";
    const std::string failures = "gpusnoop_probe_attach_failures_total";
    CHECK(page.has(lost, {{"probe", "cuda"}, {"reason", "allocation_table"}}));
    CHECK(page.has(lost, {{"probe", "host_tasks"}, {"reason", "ring_full"}}));
    CHECK_FALSE(page.has(lost, {{"probe", "host_tasks"}, {"reason", "throttled"}}));
    CHECK_FALSE(page.has(lost, {{"probe", "host_pressure"}}));
    CHECK_FALSE(page.has(lost, {{"probe", "in_flight"}}));
    CHECK(page.has(failures, {{"probe", "functions"}, {"reason", "no_probe"}}));
    CHECK_FALSE(page.has(failures, {{"probe", "cuda"}, {"reason", "no_probe"}}));
    CHECK_FALSE(page.has(failures, {{"probe", "host_tasks"}}));
    CHECK(page.has("gpusnoop_probe_nested_calls_total", {{"probe", "cuda"}}));
    CHECK(page.samples("gpusnoop_probe_nested_calls_total").size() == 1);
    CHECK(page.has("gpusnoop_probe_entries_total", {{"probe", "host_tasks"}}));
    CHECK_FALSE(page.has("gpusnoop_probe_entries_total", {{"probe", "host_pressure"}}));

    std::set<std::string> probes;
    for (const Sample &state : page.samples("gpusnoop_probe_state")) {
        CHECK(state.value == 1);
        CHECK(probes.insert(state.labels.at("probe")).second);
    }
    CHECK(probes.size() == gpusnoop::probes::all_probes().size());
    for (const Sample &family : page.samples("gpusnoop_series")) {
        CHECK(family.value > 0);
    }
    CHECK(page.samples("gpusnoop_series_folded_total").empty());
    CHECK_FALSE(default_page_exponent(text));
}

TEST_CASE("the setting histograms puts a histogram on the page, and takes others off", "[e2e]") {
    require_bpf();
    const std::string sizes = "gpusnoop_cuda_memcpy_size_bytes";
    const Exporter exporter("histograms: [" + sizes + "]\nfunctions: {enabled: true}\n");
    const TemporaryDirectory directory;
    const Process holder = default_page_holder(exporter);
    const Process workload = default_page_workload(exporter, directory);
    const Labels counted = {{"comm", "counted"}};
    const double copies = exporter.scrape().sum("gpusnoop_cuda_memcpy_total", counted);
    CHECK(copies > 0);
    const Page page = exporter.wait_for(sizes + "_count", counted, copies);
    CHECK(page.sum(sizes + "_sum", counted) ==
          page.sum("gpusnoop_cuda_memcpy_bytes_total", counted));
    CHECK(default_page_histograms(page) == std::set<std::string>{sizes});
    CHECK(page.has("gpusnoop_function_calls_total", counted));
}

// What /-/ready says.

TEST_CASE("an exporter is ready when it has looked at all processes", "[e2e][core]") {
    require_bpf();
    const Exporter exporter;
    eventually("it to be ready: " + exporter.log(),
               [&] { return http(exporter.port(), "/-/ready").status == 200; });
    CHECK(exporter.scrape().sum("gpusnoop_discovery_last_round_age_seconds") < 10);
}

TEST_CASE("an exporter with process ids of its own is not ready, and says why", "[e2e]") {
    require_bpf();
    const Exporter exporter("", {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"});
    const HttpAnswer answer = http(exporter.port(), "/-/ready");
    CHECK(answer.status == 503);
    CHECK(answer.body.find("hostPID") != std::string::npos);
    CHECK(exporter.log().find("process ids of the host are not visible") != std::string::npos);
}
