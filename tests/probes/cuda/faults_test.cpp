// The fault lab: programs that leave calls in every way there is. Traced, each must end as it does
// untraced, and nothing of it may stay behind in the probe.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <sstream>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

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

// Runs the scenario untraced and traced. Traced, it ends as untraced, and nothing of it stays.
void cuda_faults_check_same(const Exporter &exporter, const CudaFaultsScenario &scenario) {
    const TemporaryDirectory truth_directory;
    const Finished untraced = run({standin("faults"), scenario.name}, {{"LD_LIBRARY_PATH", ""}});
    const Finished traced = run({standin("faults"), scenario.name},
                                {{"STANDIN_TRUTH_DIR", truth_directory.path().string()}});
    CHECK(traced.code == scenario.code);
    CHECK(traced.code == untraced.code);
    CHECK(traced.output == untraced.output);
    check_account_at_rest(exporter);
}

Process cuda_faults_hold_libraries(const Exporter &exporter) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    return holder;
}

}  // namespace

TEST_CASE("programs that leave calls in odd ways end as untraced, and leave nothing",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const Exporter exporter("cuda:\n  attach: " + mode + "\n");
    const Process holder = cuda_faults_hold_libraries(exporter);
    const auto all = cuda_faults_scenarios();
    REQUIRE(all.size() > 20);
    for (const CudaFaultsScenario &scenario : all) {
        // A signal stack above the interrupted call: the kernel itself then drops the call's return
        // probe and kills the program, unless a session spares the inner call its own.
        if (scenario.fragile || (scenario.name == "signal_stack_above" && mode != "session")) {
            continue;
        }
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
