// What real processes capture and what their graphs run: what the page says against what the
// libraries counted.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <csignal>
#include <filesystem>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// Enough that nothing is folded.
const std::string budget = "series:\n  budget: 100000\n";

struct Run {
    TemporaryDirectory directory;
    Process process;

    // Its probes are attached when it begins.
    Run(const Exporter &exporter, const std::string &scenario, std::vector<std::string> options)
        : process(start(directory, scenario, std::move(options),
                        {"--hold", "--wait-for-file", directory / "go"})) {
        process.wait_for_output("ready");
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
        exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
        write_file(directory / "go", "");
    }

    static Process start(const TemporaryDirectory &in, const std::string &scenario,
                         std::vector<std::string> options, std::vector<std::string> more) {
        std::filesystem::create_directory(in / "truth");
        std::vector<std::string> command = {standin("graphs"), scenario, "--name", scenario};
        command.insert(command.end(), options.begin(), options.end());
        command.insert(command.end(), more.begin(), more.end());
        return Process(command, {{"STANDIN_TRUTH_DIR", (in / "truth").string()}});
    }
    [[nodiscard]] truth::TruthSnapshot truth() const {
        return truth::sum(truth::read_truth(directory / "truth"));
    }
};

// attached_by() would leave the driver out by perf.
std::string both_libraries_by(const std::string &mode) {
    return "cuda:\n  attach: " + mode + "\n";
}

// All that it has done is on the page.
Page wait_for_all(const Exporter &exporter, const truth::TruthSnapshot &truth) {
    const std::string &comm = truth.comm;
    if (truth.graphs() > 0) {
        (void)exporter.wait_for("gpusnoop_cuda_graph_launches_total", {{"comm", comm}},
                                number(truth.graphs()));
    }
    (void)exporter.wait_for(
        "gpusnoop_cuda_graph_captured_total", {{"comm", comm}},
        number(truth.of(truth::Captured::launch) + truth.of(truth::Captured::copy) +
               truth.of(truth::Captured::memset) + truth.of(truth::Captured::allocate) +
               truth.of(truth::Captured::free) + truth.of(truth::Captured::graph)));
    return exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                             number(truth.launches + truth.launches_by_graphs));
}

void check(const Exporter &exporter, const std::string &scenario,
           const std::vector<std::string> &options) {
    CAPTURE(scenario, options);
    Run run(exporter, scenario, options);
    run.process.wait_for_output("holding");
    const auto truth = run.truth();
    const Page page = wait_for_all(exporter, truth);
    check_counters(page, truth, truth.comm);
    check_outstanding(page, truth);
    CHECK(page.sum("gpusnoop_cuda_graph_launches_total",
                   {{"comm", truth.comm}, {"content", "unknown"}}) == 0);
    check_account_at_rest(exporter);
}

}  // namespace

TEST_CASE("what graphs run is what the libraries ran", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string api = GENERATE("runtime", "driver");
    CAPTURE(mode);
    const Exporter exporter(budget + both_libraries_by(mode));
    for (const std::string scenario :
         {"capture_replay", "joined_streams", "nested", "per_thread_stream", "to_graph", "manual",
          "child", "clone", "update", "mixed"}) {
        check(exporter, scenario, {"--api", api, "--threads", "2", "--iterations", "20"});
    }
    check(exporter, "invalidated", {"--api", api});
}

TEST_CASE("no captured call is lost or mixed up under threads", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(budget + both_libraries_by(mode));
    check(exporter, "concurrent", {"--threads", "4", "--iterations", "10"});
}

TEST_CASE("captures that nobody ends take nothing along", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(budget + both_libraries_by(mode));
    Run run(exporter, "abandoned", {});
    REQUIRE(run.process.wait() == 0);
    const auto truth = run.truth();
    const Page page = wait_for_all(exporter, truth);
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
    // Of another process, nothing counts as captured.
    check(exporter, "manual", {"--iterations", "3"});
}

TEST_CASE("what a graph from before the probes runs is unknown, not nothing", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const Process process = Run::start(directory, "before", {"--iterations", "7"}, {"--hold"});
    process.wait_for_output("waiting 1");
    const Exporter exporter(budget + both_libraries_by(mode));
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    process.signal(SIGUSR1);
    process.wait_for_output("holding");
    const Page page = exporter.wait_for("gpusnoop_cuda_graph_launches_total",
                                        {{"comm", "before"}, {"content", "unknown"}}, 7);
    CHECK(page.sum("gpusnoop_cuda_graph_launches_total", {{"comm", "before"}}) == 7);
    CHECK(page.sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "before"}}) == 0);
    CHECK(page.sum("gpusnoop_cuda_graph_captured_total", {{"comm", "before"}}) == 0);
    check_account_at_rest(exporter);
}
