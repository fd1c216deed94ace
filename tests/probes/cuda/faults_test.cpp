// The fault lab: programs that leave calls in every way there is. Traced, each must end as it does
// untraced, and nothing of it may stay behind in the probe.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/probes/cuda/levels.h"

using namespace harness;

namespace {

struct CudaFaultsScenario {
    std::string name;
    int code = 0;
    // What return probes break by their nature (design 3b.3): C++ exceptions and fibers.
    bool fragile = false;
};

std::vector<CudaFaultsScenario> cuda_faults_scenarios() {
    std::istringstream lines(run({standin("faults"), "--list"}).output);
    std::vector<CudaFaultsScenario> all;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        CudaFaultsScenario scenario;
        std::string mark;
        words >> scenario.name >> scenario.code >> mark;
        scenario.fragile = mark == "fragile";
        all.push_back(scenario);
    }
    return all;
}

// Those that programs survive with return probes. A signal stack above the interrupted call: the
// kernel itself then drops the call's return probe and kills the program, unless a session spares
// the inner call its own.
std::vector<CudaFaultsScenario> cuda_faults_with_return_probes(const std::string &mode) {
    std::vector<CudaFaultsScenario> all = cuda_faults_scenarios();
    REQUIRE(all.size() > 20);
    std::erase_if(all, [&](const CudaFaultsScenario &scenario) {
        return scenario.fragile || (scenario.name == "signal_stack_above" && mode != "session");
    });
    return all;
}

// Runs the scenario untraced and traced. Traced, it ends as untraced.
void cuda_faults_check_ends(const CudaFaultsScenario &scenario) {
    const TemporaryDirectory truth_directory;
    const Finished untraced = run({standin("faults"), scenario.name}, {{"LD_LIBRARY_PATH", ""}});
    const Finished traced = run({standin("faults"), scenario.name},
                                {{"STANDIN_TRUTH_DIR", truth_directory.path().string()}});
    CHECK(traced.code == scenario.code);
    CHECK(traced.code == untraced.code);
    CHECK(traced.output == untraced.output);
}

// The same, and nothing of it stays.
void cuda_faults_check_same(const Exporter &exporter, const CudaFaultsScenario &scenario) {
    cuda_faults_check_ends(scenario);
    check_account_at_rest(exporter);
}

Process cuda_faults_hold_libraries(const Exporter &exporter) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    return holder;
}

// Beside neighbours that bring the runtime to a level, for so long, and each scenario at least
// once. What is left behind shows when they rest.
void cuda_faults_check_at(const std::string &level, const std::string &mode, double seconds) {
    CAPTURE(level, mode);
    // A limit that a program without pauses between its launches exceeds, whatever the machine.
    const Exporter exporter(levels_config(mode, level == "counted" ? "50%" : "2%"));
    const Process holder = ready_for_launches(exporter, mode);
    Neighbours neighbours(exporter, level);
    const auto scenarios = cuda_faults_with_return_probes(mode);
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    do {
        for (const CudaFaultsScenario &scenario : scenarios) {
            CAPTURE(scenario.name);
            cuda_faults_check_ends(scenario);
        }
    } while (std::chrono::steady_clock::now() < until);
    neighbours.rest();
    check_account_at_rest(exporter);
}

}  // namespace

TEST_CASE("programs that leave calls in odd ways end as untraced, and leave nothing",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const Exporter exporter("cuda:\n  attach: " + mode + "\n");
    const Process holder = cuda_faults_hold_libraries(exporter);
    for (const CudaFaultsScenario &scenario : cuda_faults_with_return_probes(mode)) {
        CAPTURE(mode, scenario.name);
        cuda_faults_check_same(exporter, scenario);
    }
}

TEST_CASE("with probes at exits, programs do also what return probes break",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const Exporter exporter("cuda:\n  attach: " + mode + "\n  endings: exits\n");
    const Process holder = cuda_faults_hold_libraries(exporter);
    for (const CudaFaultsScenario &scenario : cuda_faults_scenarios()) {
        CAPTURE(mode, scenario.name);
        cuda_faults_check_same(exporter, scenario);
    }
}

TEST_CASE("odd ways to leave calls end as untraced at each level of observation",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string level = GENERATE("counted", "intermittent", "changing");
    cuda_faults_check_at(level, mode, 0);
}

// GPUSNOOP_LEVELS_SECONDS=300 probes_tests '[.faults-at-levels]' -c MODE: for so long at each level
TEST_CASE("a long time of odd calls at each level of observation", "[.faults-at-levels]") {
    require_bpf();
    for (const std::string mode : {"session", "multi", "perf"}) {
        SECTION(mode) {
            for (const std::string level : {"counted", "intermittent", "changing"}) {
                cuda_faults_check_at(level, mode, levels_seconds());
            }
        }
    }
}
