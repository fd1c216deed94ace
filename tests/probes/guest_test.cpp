// The CUDA probe and the functions probe on another kernel, by its best way to attach to functions:
// short, as guests are slow. What they show in full is tested on the build machine.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>

#include "exporter/ebpf/features.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/probes/cuda/graphs.h"

using namespace harness;

namespace {

// Of those in GPUSNOOP_TEST_MODES, if there are any.
std::string best_mode() {
    std::vector<std::string> modes;
    for (const auto mode : gpusnoop::ebpf::probe_features().attach_modes()) {
        modes.emplace_back(gpusnoop::ebpf::to_string(mode));
    }
    modes = attach_modes(modes);
    REQUIRE(!modes.empty());
    return modes.front();
}

// Else only to the runtime: see attached_by().
bool attaches_to_driver() {
    return best_mode() != "perf";
}

// Runs a workload and compares the page with what the library counted.
void guest_check_workload(const Exporter &exporter, const std::vector<std::string> &amount) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    wait_until_attached(exporter, attaches_to_driver());
    const double unmatched = exporter.scrape().sum("gpusnoop_probe_unmatched_returns_total");
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory / "truth");
    std::vector<std::string> command = {standin("workload"),
                                        "--failures",
                                        "--default-kind",
                                        "--leak",
                                        "1000",
                                        "--name",
                                        "guest",
                                        "--wait-for-file",
                                        directory / "go",
                                        "--hold"};
    command.insert(command.end(), amount.begin(), amount.end());
    const Process workload(std::move(command),
                           {{"STANDIN_TRUTH_DIR", (directory / "truth").string()}});
    write_file(directory / "go", "");
    workload.wait_for_output("holding");
    const auto truths = truth::read_truth(directory / "truth");
    REQUIRE(truths.size() == 1);
    REQUIRE(truths[0].launches > 0);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "guest"}},
                                        static_cast<double>(truths[0].launches));
    check_counters(page, truths[0], "guest");
    check_outstanding(page, truths[0]);
    CHECK(page.sum("gpusnoop_probe_unmatched_returns_total") == unmatched);
    check_account_at_rest(exporter);
}

}  // namespace

TEST_CASE("the way to attach is the one that this kernel is here for", "[.guest]") {
    const char *const expected = std::getenv("GPUSNOOP_ATTACHES_BY");
    REQUIRE(expected != nullptr);
    CHECK(best_mode() == expected);
}

TEST_CASE("system calls are traced where this kernel is here for", "[.guest]") {
    const char *const expected = std::getenv("GPUSNOOP_SYSCALLS_AT");
    REQUIRE(expected != nullptr);
    const Exporter exporter("cuda: {enabled: false}\nsyscall: {enabled: true}\n");
    CHECK(exporter.log().find(std::string("at=") + expected) != std::string::npos);
}

TEST_CASE("CUDA calls are counted as the library counts them, and what graphs run", "[.guest]") {
    const Exporter exporter(attached_by(best_mode()));
    guest_check_workload(exporter, {"--threads", "4", "--iterations", "100"});
    check_graphs(exporter, "mixed", "mixed", {"--threads", "2", "--iterations", "30"},
                 attaches_to_driver());
}

TEST_CASE("16 threads on few CPUs lose no count in 10 s", "[.guest]") {
    const Exporter exporter(attached_by(best_mode()));
    guest_check_workload(exporter, {"--threads", "16", "--seconds", "10"});
}

TEST_CASE("calls of functions are counted as the functions count them", "[.guest]") {
    const CallsConfig config{.mode = best_mode()};
    const Exporter exporter(calls_config(config));
    Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    const Finished finished = run({standin("calls"), "--scenario", "mix", "--name", "guest",
                                   "--threads", "4", "--iterations", "100"});
    REQUIRE(finished.code == 0);
    const CallsTruth truth = parse_calls(finished.output);
    check_calls(exporter.wait_for("gpusnoop_function_calls_total", {{"comm", "guest"}},
                                  counted_calls(truth)),
                truth, "guest", config);
    check_account_at_rest(exporter);
}
