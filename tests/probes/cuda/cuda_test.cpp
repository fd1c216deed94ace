// The CUDA probe on real processes: what the page says against what the library counted.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <string>
#include <utility>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// A process that does nothing but keep the library in use, so that it is attached to before the
// processes of the test start.
Process cuda_hold_library(const Exporter &exporter) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    return holder;
}

std::string config_for(const std::string &mode, const std::string &endings = "auto") {
    return "cuda:\n  attach: " + mode + "\n  endings: " + endings + "\n";
}

// With calls inside calls, as the real runtime has them, or without.
void check_nvcc_program(const Exporter &exporter, const std::string &program,
                        const std::string &nest) {
    const std::string comm = program.substr(0, 10) + "_" + nest;
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory / "truth");
    Process run({standin("nvcc/" + program), "--iterations", "100", "--name", comm,
                 "--wait-for-file", directory / "go", "--hold"},
                {{"STANDIN_TRUTH_DIR", (directory / "truth").string()}, {"STANDIN_NEST", nest}});
    write_file(directory / "go", "");
    run.wait_for_output("holding");

    const auto truth = truth::sum(truth::read_truth(directory / "truth"));
    REQUIRE(truth.launches > 0);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                                        static_cast<double>(truth.launches));
    check_counters(page, truth, comm);
    check_outstanding(page, truth);
}

}  // namespace

TEST_CASE("every counter equals the library's own, for four processes with four threads each",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string endings = GENERATE_COPY(from_range(endings_by(mode)));
    CAPTURE(mode, endings);
    const Exporter exporter(config_for(mode, endings));
    const Process holder = cuda_hold_library(exporter);
    // The pairs attach the return end first, so a call of another program can be cut in half by it;
    // after that there must be none.
    const double unmatched_before = exporter.scrape().sum("gpusnoop_probe_unmatched_returns_total");
    const TemporaryDirectory truth_directory;
    const auto go = truth_directory / "go";

    std::vector<Process> workloads;
    for (int i = 0; i < 4; i++) {
        // Half of them with calls inside calls, as the real runtime has them.
        workloads.emplace_back(
            std::vector<std::string>{standin("workload"), "--threads", "4", "--iterations", "1000",
                                     "--failures", "--default-kind", "--seed", std::to_string(i),
                                     "--leak", "1000", "--name", "w" + std::to_string(i),
                                     "--wait-for-file", go, "--hold"},
            Process::Environment{{"STANDIN_TRUTH_DIR", (truth_directory / "truth").string()},
                                 {"STANDIN_NEST", i % 2 == 0 ? "0" : "1"}});
    }
    std::filesystem::create_directory(truth_directory / "truth");
    write_file(go, "");
    for (const Process &workload : workloads) {
        workload.wait_for_output("holding");
    }

    auto truths = truth::read_truth(truth_directory / "truth");
    REQUIRE(truths.size() == 4);
    Page page = exporter.scrape();
    for (const auto &truth : truths) {
        CAPTURE(truth.comm);
        page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", truth.comm}},
                                 static_cast<double>(truth.launches));
        check_counters(page, truth, truth.comm);
        check_outstanding(page, truth);
    }
    CHECK(page.sum("gpusnoop_probe_nested_calls_total") > 0);
    CHECK(page.sum("gpusnoop_probe_unmatched_returns_total") == unmatched_before);
    check_account_at_rest(exporter);

    SECTION("what a killed process had not freed is counted, and its gauges go") {
        workloads[0].signal(SIGKILL);
        CHECK(workloads[0].wait() == 128 + SIGKILL);
        const auto pid = std::to_string(workloads[0].pid());
        eventually("the process's series to go", [&] {
            return !exporter.scrape().has("gpusnoop_cuda_memory_outstanding_bytes", {{"pid", pid}});
        });
        page = exporter.scrape();
        for (const auto &truth : truths) {
            const bool killed = truth.pid == workloads[0].pid();
            const auto &memory = truth.of(truth::MemoryKind::device);
            CHECK(page.sum("gpusnoop_cuda_memory_unfreed_at_exit_bytes_total",
                           {{"comm", truth.comm}}) ==
                  (killed ? static_cast<double>(memory.outstanding_bytes) : 0));
            CHECK(page.sum("gpusnoop_cuda_memory_unfreed_at_exit_allocations_total",
                           {{"comm", truth.comm}}) ==
                  (killed ? static_cast<double>(memory.outstanding_allocations) : 0));
            if (!killed) {
                check_outstanding(page, truth);
            }
        }
    }
}

TEST_CASE("a program that nvcc compiled is counted by kernel and shape",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    if (!std::filesystem::exists(standin("nvcc/vector_add"))) {
        missing("nvcc, to build CUDA programs");
    }
    const std::string mode = GENERATE(from_range(attach_modes()));
    const Exporter exporter(config_for(mode));
    for (const std::string program : {"vector_add", "legacy_launch"}) {
        // The first process of a library can be ahead of the probes, and then its Default copies
        // are of unknown kind: so there is one before.
        const Process holder(
            {standin("nvcc/" + program), "--iterations", "0", "--hold", "--name", "holder"});
        exporter.wait_until_attached_to(standin("13/libcudart.so.13"));
        exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
        for (const std::string nest : {"0", "1"}) {
            CAPTURE(mode, program, nest);
            check_nvcc_program(exporter, program, nest);
        }
    }
    check_account_at_rest(exporter);
}

// Discovery looks for a runtime in each new program, while the program is running.
TEST_CASE("copies of programs that were never seen before have directions", "[kernel]") {
    require_bpf();
    if (!std::filesystem::exists(standin("nvcc/vector_add"))) {
        missing("nvcc, to build CUDA programs");
    }
    const Exporter exporter;
    const Process holder({standin("nvcc/vector_add"), "--iterations", "0", "--hold"});
    exporter.wait_until_attached_to(standin("13/libcudart.so.13"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    const TemporaryDirectory directory;
    constexpr int rounds = 8;
    constexpr int at_once = 16;
    for (int round = 0; round < rounds; round++) {
        std::vector<Process> running;
        for (int i = 0; i < at_once; i++) {
            const auto program = directory / ("new_" + std::to_string(round * at_once + i));
            std::filesystem::copy_file(standin("nvcc/vector_add"), program);
            running.emplace_back(
                std::vector<std::string>{program, "--iterations", "20", "--name", "new_program"});
        }
        for (Process &one : running) {
            CHECK(one.wait() == 0);
        }
    }
    constexpr int each = rounds * at_once * 20;
    const Page page =
        exporter.wait_for("gpusnoop_cuda_memcpy_total", {{"comm", "new_program"}}, 3 * each);
    CHECK(page.sum("gpusnoop_cuda_memcpy_total", {{"comm", "new_program"}, {"direction", "d2h"}}) ==
          each);
}

TEST_CASE("kernels of a program that was running before the exporter have names", "[kernel]") {
    require_bpf();
    if (!std::filesystem::exists(standin("nvcc/vector_add"))) {
        missing("nvcc, to build CUDA programs");
    }
    const TemporaryDirectory directory;
    // It launches for a while, so that its launch handles are older than the exporter.
    Process run({standin("nvcc/vector_add"), "--iterations", "100000000", "--name", "early"});
    run.wait_for_output("ready");
    const Exporter exporter;
    exporter.wait_until_attached_to(standin("13/libcudart.so.13"));
    eventually("launches", [&] {
        return exporter.scrape().sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "early"}}) >
               100;
    });
    const Page page = exporter.scrape();
    CHECK_FALSE(page.has("gpusnoop_cuda_kernel_launches_total",
                         {{"comm", "early"}, {"kernel", "unknown"}}));
}

TEST_CASE("both CUDA versions at once, and a copy of the library, are each attached to once",
          "[kernel]") {
    require_bpf();
    const Exporter exporter;
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory / "truth");
    std::filesystem::copy_file(standin("12/libcudart.so.12"), directory / "libcudart.so.12");
    const Process::Environment truth_in = {{"STANDIN_TRUTH_DIR", (directory / "truth").string()}};
    Process::Environment other_copy = truth_in;
    other_copy["LD_LIBRARY_PATH"] = directory.path().string();
    std::vector<Process> runs;
    for (int i = 0; i < 4; i++) {
        runs.emplace_back(
            std::vector<std::string>{standin("workload"), "--iterations", "200", "--name", "copies",
                                     "--wait-for-file", directory / "go", "--hold"},
            i % 2 == 0 ? truth_in : other_copy);
    }
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(directory / "libcudart.so.12");
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    write_file(directory / "go", "");
    for (const Process &run : runs) {
        run.wait_for_output("holding");
    }
    const auto truth = truth::sum(truth::read_truth(directory / "truth"));
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "copies"}},
                                        static_cast<double>(truth.launches));
    check_counters(page, truth, "copies");
}
