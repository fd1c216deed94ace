// The first calls of the first process that uses a library, and files that nobody uses.
#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "exporter/system/priority.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

const std::string detached = "detached: no process uses it";

// A runtime and the driver that it uses, which nobody has used before.
struct Copies {
    // Not in /tmp, which may be a tmpfs: its files are no file system's that lasts, and are let go.
    TemporaryDirectory directory{fs::path(standin("workload")).parent_path()};
    fs::path runtime = directory / "libcudart.so.12";
    fs::path driver = directory / "libcuda.so.1";

    Copies() {
        fs::copy_file(standin("12/libcudart.so.12"), runtime);
        fs::copy_file(standin("driver/libcuda.so.1"), driver);
    }
    [[nodiscard]] std::string named() const { return "preattach: [" + driver.string() + "]"; }
    // A program that begins with its calls at once, and its truth.
    [[nodiscard]] truth::TruthSnapshot run_workload(const std::string &comm,
                                                    std::vector<std::string> more = {}) const {
        const TemporaryDirectory truth;
        std::vector<std::string> command = {standin("workload"), "--threads", "4", "--memory-kinds",
                                            "--default-kind",    "--name",    comm};
        command.insert(command.end(), more.begin(), more.end());
        const Finished ran = run(command, {{"STANDIN_TRUTH_DIR", truth.path().string()},
                                           {"LD_LIBRARY_PATH", directory.path().string()}});
        REQUIRE(ran.code == 0);
        return truth::sum(truth::read_truth(truth.path()));
    }
};

// What the runtime did without the driver: allocations of nothing. Of these, as many count as were
// made while the runtime was attached to; of all others, every one.
truth::TruthSnapshot without_empty_allocations(truth::TruthSnapshot truth, double counted) {
    for (auto &device : truth.memory) {
        for (auto &memory : device) {
            counted -= static_cast<double>(memory.allocations);
        }
    }
    for (auto &device : truth.memory) {
        for (auto &memory : device) {
            memory.empty_allocations = std::min(memory.empty_allocations,
                                                static_cast<std::uint64_t>(std::max(counted, 0.0)));
            counted -= static_cast<double>(memory.empty_allocations);
        }
    }
    return truth;
}

void check_counted(const Exporter &exporter, const truth::TruthSnapshot &truth,
                   const std::string &comm) {
    REQUIRE(truth.launches > 0);
    (void)exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                            static_cast<double>(truth.launches));
    double copies = 0;
    for (const auto &device : truth.copies) {
        for (const auto &kind : device) {
            for (const auto &mode : kind) {
                copies += static_cast<double>(mode.calls);
            }
        }
    }
    // Those of the kind Default wait for the allocations before them.
    const Page page = exporter.wait_for("gpusnoop_cuda_memcpy_total", {{"comm", comm}}, copies);
    const double allocations = page.sum("gpusnoop_cuda_memory_allocations_total", {{"comm", comm}});
    check_counters(page, without_empty_allocations(truth, allocations), comm);
    check_account_at_rest(exporter);
}

// How many threads of the process have it.
std::ptrdiff_t threads_with_niceness(pid_t pid, int niceness) {
    const fs::directory_iterator threads("/proc/" + std::to_string(pid) + "/task");
    return std::count_if(begin(threads), end(threads), [&](const fs::directory_entry &thread) {
        const std::string stat = read_file(thread.path() / "stat");
        std::istringstream fields(stat.substr(stat.rfind(')') + 1));  // from the third on
        std::string value;
        for (int field = 3; field <= 19; field++) {
            fields >> value;
        }
        return std::stoi(value) == niceness;
    });
}

// So many scans later.
void wait_for_rescans(const Exporter &exporter, int count) {
    const TemporaryDirectory directory;
    // Each copy that a scan finds new, and lets go of, is one that has come round twice.
    for (int n = 0; n < count; n++) {
        const fs::path mark = directory.path() / ("mark" + std::to_string(n)) / "libcudart.so.12";
        fs::create_directories(mark.parent_path());
        fs::copy_file(standin("12/libcudart.so.12"), mark);
        (void)hold(exporter, mark);  // as long as it takes to attach
        struct stat status{};
        REQUIRE(::stat(mark.c_str(), &status) == 0);
        const std::string inode = "inode=" + std::to_string(status.st_ino);
        fs::remove(mark);  // what has no name is not kept
        eventually("a file without a name to be let go", [&] {
            std::istringstream lines(exporter.log());
            for (std::string line; std::getline(lines, line);) {
                if (line.find(detached) != std::string::npos &&
                    line.find(inode) != std::string::npos) {
                    return true;
                }
            }
            return false;
        });
    }
}

}  // namespace

TEST_CASE("calls count by the driver's library as long as the runtime is not attached to",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi", "perf"})));
    CAPTURE(mode);
    const Copies copies;
    // The runtime's entries are missed, all of them.
    const Exporter exporter("discovery: {" + copies.named() + "}\ncuda: {attach: " + mode +
                            ", libraries: [\"libcuda.so*\"]}\n");
    exporter.wait_until_attached_to(copies.driver);  // nobody has mapped it
    check_counted(exporter, copies.run_workload("by_driver", {"--iterations", "300"}), "by_driver");
    CHECK(exporter.times_attached_to(copies.driver) == 1);
}

TEST_CASE("each call counts once while the runtime of a first process is attached to",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi", "perf"})));
    CAPTURE(mode);
    const Copies copies;
    const Exporter exporter("discovery: {" + copies.named() + "}\ncuda: {attach: " + mode + "}\n");
    exporter.wait_until_attached_to(copies.driver);
    // Its first calls are seen as the driver's, the later ones as the runtime's.
    check_counted(exporter, copies.run_workload("first", {"--seconds", "1"}), "first");
    CHECK(exporter.times_attached_to(copies.runtime) == 1);
    CHECK(exporter.times_attached_to(copies.driver) == 1);
    CHECK(exporter.scrape().sum("gpusnoop_probe_nested_calls_total", {{"probe", "cuda"}}) > 0);
}

TEST_CASE("a named file that is replaced is attached to again before anybody maps it", "[kernel]") {
    require_bpf();
    const Copies copies;
    const Exporter exporter("discovery: {rescan_interval: 1s, " + copies.named() + "}\n");
    exporter.wait_until_attached_to(copies.driver);
    const fs::path next = copies.directory / "next";
    fs::copy_file(copies.driver, next);
    fs::rename(next, copies.driver);
    exporter.wait_until_attached_to(copies.driver);
    eventually("the old file to be let go",
               [&] { return exporter.log().find(detached) != std::string::npos; });
    check_counted(exporter, copies.run_workload("after", {"--iterations", "100"}), "after");
}

TEST_CASE("a group's library that is named by its whole path is attached to before it is mapped",
          "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const fs::path library = directory / "libcalls.so.1";
    fs::copy_file(standin("libcalls.so.1"), library);
    std::string config = calls_config({});
    const std::string name = "libcalls.so*";
    const std::size_t at = config.find(name);
    REQUIRE(at != std::string::npos);
    config.replace(at, name.size(), library.string());
    const Exporter exporter(config);
    exporter.wait_until_attached_to(library);
    const Finished ran = run({standin("calls"), "--threads", "4", "--name", "first_one"},
                             {{"LD_LIBRARY_PATH", directory.path().string()}});
    REQUIRE(ran.code == 0);
    const CallsTruth truth = parse_calls(ran.output);
    check_calls(exporter.wait_for("gpusnoop_function_calls_total", {{"comm", "first_one"}},
                                  counted_calls(truth)),
                truth, "first_one");
}

TEST_CASE("a file of the host that nobody uses stays attached to", "[kernel]") {
    require_bpf();
    const Copies copies;
    const Exporter exporter("discovery: {rescan_interval: 1s}\n");
    {
        const Process user = hold(exporter, copies.runtime);
        wait_for_rescans(exporter, 1);
    }
    wait_for_rescans(exporter, 2);
    CHECK(exporter.times_said_of(copies.runtime, detached) == 0);
    // The next job's first calls count.
    check_counted(exporter, copies.run_workload("next_job", {"--iterations", "100"}), "next_job");
    CHECK(exporter.times_attached_to(copies.runtime) == 1);
}

TEST_CASE("a file that nobody uses is let go where the configuration keeps nothing", "[kernel]") {
    require_bpf();
    const Copies copies;
    const Exporter exporter("discovery: {rescan_interval: 1s, keep: 0s}\n");
    (void)hold(exporter, copies.runtime);
    eventually("it to be let go",
               [&] { return exporter.times_said_of(copies.runtime, detached) == 1; });
}

TEST_CASE("on a busy machine, libraries are found with the niceness of what counts", "[kernel]") {
    require_bpf();
    // Else a machine may not permit the niceness.
    Exporter exporter("capabilities: {keep: all}\n");
    std::vector<std::unique_ptr<Process>> busy;
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); i++) {
        for (const auto *niceness : {"0", "10"}) {
            busy.push_back(std::make_unique<Process>(std::vector<std::string>{
                "nice", "-n", niceness, "sh", "-c", "while :; do :; done"}));
        }
    }
    const Copies copies;
    const auto truth = copies.run_workload("cold_busy");
    exporter.wait_until_attached_to(copies.runtime);
    CHECK(truth.launches > 0);
    const auto preferred =
        threads_with_niceness(exporter.process().pid(), gpusnoop::counting_niceness);
    if (preferred == 0) {
        missing("the privilege to have less niceness");
    }
    // The thread that counts, and the one that finds libraries; others inherit it from these.
    CHECK(preferred >= 2);
}
