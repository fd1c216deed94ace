// Every function that is traced, through the runtime, the driver and both, on real processes: what
// the page says against what the libraries counted.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/guest.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

// Enough that nothing is folded.
const std::string cuda_entry_points_budget = "series:\n  budget: 100000\n";

// A program that was started, held back, traced, let go, and has done its work.
struct CudaEntryPointsRun {
    TemporaryDirectory directory;
    Process process;

    explicit CudaEntryPointsRun(std::vector<std::string> command, Process::Environment more = {})
        : process(start(directory, std::move(command), std::move(more))) {
        process.wait_for_output("ready");
        write_file(directory / "go", "");
        process.wait_for_output("holding");
    }

    static Process start(const TemporaryDirectory &in, std::vector<std::string> command,
                         Process::Environment environment) {
        fs::create_directory(in / "truth");
        environment["STANDIN_TRUTH_DIR"] = (in / "truth").string();
        command.insert(command.end(), {"--hold", "--wait-for-file", in / "go"});
        return Process(command, environment);
    }

    [[nodiscard]] truth::TruthSnapshot truth() const {
        const auto all = truth::read_truth(directory / "truth");
        REQUIRE(all.size() == 1);
        return all.front();
    }
};

void check(const Exporter &exporter, const CudaEntryPointsRun &run, const GpuLabels &gpus = {}) {
    const auto truth = run.truth();
    REQUIRE(truth.launches > 0);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total",
                                        {{"comm", truth.comm}}, number(truth.all_launches()));
    check_counters(page, truth, truth.comm, gpus);
    check_outstanding(page, truth, gpus);
    check_account_at_rest(exporter);
}

std::uint64_t resets(const truth::TruthSnapshot &truth) {
    std::uint64_t calls = 0;
    for (const char *function :
         {"cudaDeviceReset", "cuDevicePrimaryCtxReset_v2", "cuCtxDestroy_v2"}) {
        calls += truth.result(function, 0);
    }
    return calls;
}

void check_linkage(const Exporter &exporter, const std::string &comm, const std::string &linkage) {
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_process_info", {{"comm", comm}, {"linkage", linkage}}) == 1);
}

// The probes are there before the process: a process that keeps the libraries in use. (One with the
// runtime linked into it loads the driver at its first call.)
Process cuda_entry_points_hold(const Exporter &exporter, const std::string &program,
                               const std::vector<std::string> &files) {
    Process holder({standin(program), "--iterations", "1", "--hold", "--name", "holder"});
    for (const std::string &file : files) {
        exporter.wait_until_attached_to(standin(file));
    }
    holder.wait_for_output("holding");
    return holder;
}

const std::vector<std::string> both_libraries = {"driver/libcuda.so.1", "12/libcudart.so.12"};

}  // namespace

TEST_CASE("every function counts as the libraries count it", "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const Exporter exporter(cuda_entry_points_budget + "cuda:\n  attach: " + mode + "\n");
    const Process holder = cuda_entry_points_hold(exporter, "workload", both_libraries);
    for (const std::string api : {"runtime", "driver", "both"}) {
        CAPTURE(mode, api);
        const CudaEntryPointsRun run({standin("workload"), "--everything", "--api", api,
                                      "--threads", "4", "--iterations", in_guest() ? "20" : "60",
                                      "--failures", "--name", "everything_" + api});
        check(exporter, run);
    }
}

TEST_CASE("a runtime that is linked into the program is traced there", "[kernel]") {
    require_bpf();
    const std::string program = GENERATE("workload_static", "workload_stripped");
    CAPTURE(program);
    const Exporter exporter(cuda_entry_points_budget);
    const Process holder = cuda_entry_points_hold(
        exporter, program,
        program == "workload_static" ? std::vector<std::string>{"driver/libcuda.so.1", program}
                                     : std::vector<std::string>{"driver/libcuda.so.1"});
    const CudaEntryPointsRun run({standin(program), "--everything", "--threads", "2",
                                  "--iterations", "300", "--failures", "--name", "linked"});
    const auto truth = run.truth();
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "linked"}},
                                        number(truth.all_launches()));
    if (program == "workload_static") {
        check_counters(page, truth, "linked");
    }
    check_outstanding(page, truth);
    check_linkage(exporter, "linked", program == "workload_static" ? "static" : "driver_only");
}

TEST_CASE("a program that uses the driver alone is seen whole", "[kernel][core]") {
    require_bpf();
    const Exporter exporter(cuda_entry_points_budget);
    const Process holder =
        cuda_entry_points_hold(exporter, "driver_workload", {"driver/libcuda.so.1"});
    const CudaEntryPointsRun run({standin("driver_workload"), "--threads", "2", "--iterations",
                                  "300", "--failures", "--name", "driver"});
    check(exporter, run);
    check_linkage(exporter, "driver", "driver_only");
}

TEST_CASE("resets take all memory of a device with them", "[kernel]") {
    require_bpf();
    const Exporter exporter(cuda_entry_points_budget);
    const Process holder = cuda_entry_points_hold(exporter, "workload", both_libraries);
    for (const std::string api : {"runtime", "driver", "both"}) {
        CAPTURE(api);
        const CudaEntryPointsRun run({standin("workload"), "--everything", "--resets", "--api", api,
                                      "--iterations", "200", "--name", "resets_" + api},
                                     {{"STANDIN_DEVICES", "3"}});
        REQUIRE(resets(run.truth()) > 30);
        check(exporter, run);
    }
}

TEST_CASE("numbers are those of the GPU that the program meant", "[kernel][core]") {
    require_bpf();
    const GpuNode node(4);
    const Exporter exporter(cuda_entry_points_budget + node.config());
    CHECK(exporter.scrape().sum("gpusnoop_gpu_info") == 4);
    const Process holder = cuda_entry_points_hold(exporter, "workload", both_libraries);
    struct Visible {
        std::string comm, devices;
        GpuLabels labels;
    };
    for (const auto &[comm, devices, labels] : std::vector<Visible>{
             {"all", "", {"0", "1", "2", "3"}},
             {"numbers", "2,1", {"2", "1"}},
             {"uuids", "GPU-00000003,GPU-00000000-1111-2222-3333-444444444444", {"3", "0"}},
             {"one", "1", {"1"}},
         }) {
        CAPTURE(devices);
        Process::Environment environment = {{"STANDIN_DEVICES", std::to_string(labels.size())}};
        if (!devices.empty()) {
            environment["CUDA_VISIBLE_DEVICES"] = devices;
        }
        const CudaEntryPointsRun run({standin("workload"), "--everything", "--api", "both",
                                      "--threads", "2", "--iterations", "30", "--name", comm},
                                     environment);
        check(exporter, run, labels);
    }
}
