// What real processes capture and what their graphs run, in each attach mode. By perf the kernel
// takes nearly a tenth of a second to detach from each function, and these tests attach to many: so
// one exporter has all scenarios.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <csignal>

#include "tests/probes/cuda/graphs.h"

using namespace harness;

namespace {

// Enough that nothing is folded.
const std::string cuda_graphs_budget = "series:\n  budget: 100000\n";

// A thread, and then a process, ends in its capture.
void check_abandoned(const Exporter &exporter) {
    GraphsRun run("abandoned", "abandoned", {});
    wait_until_attached(exporter, true);
    run.begin();
    REQUIRE(run.process.wait() == 0);
    const auto truth = run.truth();
    const Page page = wait_for_graphs(exporter, truth);
    // It is gone before its kernels have names.
    const auto launched = [&](const char *via) {
        return page.sum("gpusnoop_cuda_kernel_launches_total",
                        {{"comm", "abandoned"}, {"via", via}});
    };
    CHECK(truth.launches_by_graphs > 0);
    CHECK(launched("graph") == number(truth.launches_by_graphs));
    CHECK(launched("stream") == number(truth.launches));
    CHECK(page.sum("gpusnoop_cuda_graph_captured_total",
                   {{"comm", "abandoned"}, {"operation", "launch"}}) ==
          number(truth.of(truth::Captured::launch)));
}

}  // namespace

TEST_CASE("what graphs run is what the libraries ran", "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    // attached_by() would leave the driver out by perf.
    const Exporter exporter(cuda_graphs_budget + "cuda:\n  attach: " + mode + "\n");
    for (const std::string api : {"runtime", "driver"}) {
        for (const std::string scenario :
             {"capture_replay", "joined_streams", "nested", "per_thread_stream", "to_graph",
              "manual", "child", "clone", "update", "mixed"}) {
            check_graphs(exporter, scenario, api.substr(0, 1) + "." + scenario,
                         {"--api", api, "--threads", "2", "--iterations", "20"});
        }
        check_graphs(exporter, "invalidated", api.substr(0, 1) + ".invalidated", {"--api", api});
    }
    check_graphs(exporter, "concurrent", "concurrent", {"--threads", "4", "--iterations", "10"});
    check_abandoned(exporter);
    // Of another process, nothing counts as captured by those captures.
    check_graphs(exporter, "manual", "after", {"--iterations", "3"});
}

TEST_CASE("what a graph from before the probes runs is unknown, not nothing",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const GraphsRun run("before", "before", {"--iterations", "7"});
    run.begin();
    run.process.wait_for_output("waiting 1");
    const Exporter exporter(cuda_graphs_budget + attached_by(mode));
    wait_until_attached(exporter, mode != "perf");
    run.process.signal(SIGUSR1);
    run.process.wait_for_output("holding");
    const Page page = exporter.wait_for("gpusnoop_cuda_graph_launches_total",
                                        {{"comm", "before"}, {"content", "unknown"}}, 7);
    CHECK(page.sum("gpusnoop_cuda_graph_launches_total", {{"comm", "before"}}) == 7);
    CHECK(page.sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "before"}}) == 0);
    CHECK(page.sum("gpusnoop_cuda_graph_captured_total", {{"comm", "before"}}) == 0);
    check_account_at_rest(exporter);
}

TEST_CASE("a node that is disabled does not count after updates of its graph", "[kernel]") {
    require_bpf();
    const Exporter exporter(cuda_graphs_budget);
    const GraphsRun run("disabled", "disabled", {"--iterations", "10"});
    wait_until_attached(exporter, true);
    run.begin();
    run.process.wait_for_output("holding");
    CHECK(run.truth().launches_by_graphs == 20);
    // From a clone, whose nodes cannot be told apart.
    const Page page = exporter.wait_for("gpusnoop_cuda_graph_launches_total",
                                        {{"comm", "disabled"}, {"content", "unknown"}}, 10);
    CHECK(page.sum("gpusnoop_cuda_graph_launches_total", {{"comm", "disabled"}}) == 20);
    const Page named = exporter.wait_for("gpusnoop_cuda_kernel_launches_total",
                                         {{"comm", "disabled"}, {"via", "graph"}}, 10);
    CHECK(named.samples("gpusnoop_cuda_kernel_launches_total", {{"comm", "disabled"}}).size() == 1);
    check_account_at_rest(exporter);
}

TEST_CASE("a capture goes on while the exporter looks for ended ones", "[kernel]") {
    require_bpf();
    const Exporter exporter(cuda_graphs_budget + "discovery: {rescan_interval: 1s}\n");
    // The pace of a program that captures for most of its time.
    check_graphs(exporter, "mixed", "rescanned",
                 {"--threads", "4", "--seconds", "5", "--rate", "400"});
}
