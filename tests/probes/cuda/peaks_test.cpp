// The most GPU memory that programs held, against what the library counted; and how long they held
// it without using the GPU.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/machine/cgroup.h"

using namespace harness;

namespace {

const std::string peak_family = "gpusnoop_cuda_memory_peak_bytes";
const std::string owner_peak_family = "gpusnoop_cuda_memory_owner_peak_bytes";
const std::string idle_family = "gpusnoop_gpu_idle_held_seconds_total";

// A process of its steps, one after each SIGUSR1.
Process peaks_program(const std::string &name, const std::vector<std::string> &steps,
                      const std::vector<std::string> &through = {},
                      Process::Environment environment = {}) {
    std::vector<std::string> command = through;
    command.insert(command.end(), {standin("steps"), "name", name, "wait"});
    command.insert(command.end(), steps.begin(), steps.end());
    Process process(command, environment);
    process.wait_for_output("waiting 1");
    return process;
}

void peaks_next(const Process &process, int wait) {
    process.signal(SIGUSR1);
    process.wait_for_output("waiting " + std::to_string(wait));
}

// The libraries are attached to before the processes of the test start, so that all they do is
// seen.
Process peaks_hold_library(const Exporter &exporter) {
    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    return holder;
}

}  // namespace

TEST_CASE("the peak of a process is the library's own, on each GPU and by every kind of memory",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const GpuNode node(2);
    const Exporter exporter("cuda: {attach: " + mode + "}\n" + node.config());
    const Process holder = peaks_hold_library(exporter);
    const TemporaryDirectory truth_directory;
    const Process::Environment environment = {
        {"STANDIN_TRUTH_DIR", truth_directory.path().string()}, {"STANDIN_DEVICES", "2"}};
    std::vector<Process> workloads;
    for (int seed = 0; seed < 3; seed++) {
        workloads.emplace_back(
            std::vector<std::string>{standin("workload"), "--threads", "1", "--iterations", "300",
                                     "--everything", "--failures", "--resets", "--leak", "20",
                                     "--seed", std::to_string(seed), "--name",
                                     "peaks" + std::to_string(seed), "--hold"},
            environment);
        workloads.back().wait_for_output("holding");
    }
    const Process steps = peaks_program(
        "peaks3", {"allocate", "3", "1000",     "map", "0",   "2",        "free",    "2",
                   "allocate", "1", "50",       "use", "1",   "allocate", "1",       "70000",
                   "free",     "1", "allocate", "1",   "600", "host",     "5000000", "wait"},
        {}, environment);
    peaks_next(steps, 2);

    const auto truths = truth::read_truth(truth_directory.path());
    REQUIRE(truths.size() == 4);
    for (const truth::TruthSnapshot &truth : truths) {
        CAPTURE(truth.comm);
        const Labels of = {{"pid", std::to_string(truth.pid)}};
        (void)exporter.wait_for(
            "gpusnoop_cuda_memory_frees_total", {{"comm", truth.comm}},
            static_cast<double>(truth.all_memory().frees + truth.all_memory().freed_by_reset));
        const Page page = exporter.scrape();
        check_outstanding(page, truth, {"0", "1"});
        for (std::size_t device = 0; device < 2; device++) {
            CAPTURE(device);
            Labels on = of;
            on["gpu"] = std::to_string(device);
            on["complete"] = "true";
            CHECK(page.sum(peak_family, on) ==
                  static_cast<double>(truth.held.at(device).peak_bytes));
        }
        CHECK(page.samples(peak_family, of).size() <= 2);
        CHECK(truth.held[0].peak_bytes > truth.held[0].bytes);
    }
}

TEST_CASE("the peak of a Slurm step is that of the sum of its processes", "[kernel]") {
    require_bpf();
    const bool is_v1 = !mounted(false).empty();
    if (!is_v1 && mounted(true).empty()) {
        missing("a mounted hierarchy of cgroups");
    }
    const Cgroup cgroup(mounted(!is_v1),
                        is_v1 ? "slurm/uid_1000/job_31/step_2/task_0"
                              : "system.slice/slurmstepd.scope/job_31/step_2/user/task_0");
    const Exporter exporter("");
    const Process holder = peaks_hold_library(exporter);
    Process one = peaks_program(
        "one", {"allocate", "1", "300", "free", "1", "wait", "allocate", "1", "50", "wait"},
        cgroup.enter());
    Process two = peaks_program("two", {"allocate", "1", "200", "wait"}, cgroup.enter());
    const Labels step = {{"slurm_job_id", "31"}, {"slurm_step_id", "2"}, {"container_id", ""}};
    const auto peak_is = [&](double bytes) {
        const Page page = exporter.wait_for(owner_peak_family, step, bytes);
        CHECK(page.samples(owner_peak_family, step).size() == 1);
        CHECK(page.sum(owner_peak_family, {{"slurm_step_id", "2"}, {"complete", "true"}}) == bytes);
    };
    peaks_next(one, 2);
    peak_is(300);
    peaks_next(two, 2);
    (void)exporter.wait_for("gpusnoop_cuda_memory_outstanding_bytes", {{"comm", "two"}}, 200);
    peak_is(300);
    peaks_next(one, 3);
    (void)exporter.wait_for("gpusnoop_cuda_memory_outstanding_bytes", {{"comm", "one"}}, 50);
    peak_is(300);
    CHECK(exporter.scrape().sum(peak_family, {{"comm", "one"}}) == 300);
    CHECK(exporter.scrape().sum(peak_family, {{"comm", "two"}}) == 200);

    // Together with what is left, but without what has ended.
    two.signal(SIGKILL);
    (void)two.wait();
    eventually("the process to be gone",
               [&] { return !exporter.scrape().has(peak_family, {{"comm", "two"}}); });
    Process three = peaks_program("three", {"allocate", "1", "260", "wait"}, cgroup.enter());
    peaks_next(three, 2);
    peak_is(310);
    for (Process *const process : {&one, &three}) {
        process->signal(SIGKILL);
        (void)process->wait();
    }
}

TEST_CASE("memory that is held idle is counted for who holds it, and not for who works or waits",
          "[kernel][long][beside]") {
    require_bpf();
    const GpuNode node(1);
    const TemporaryDirectory copies;
    const Process::Environment environment = {{"LD_LIBRARY_PATH", copies.path().string()}};
    const Exporter exporter("in_flight: {enabled: true}\n" + beside_others(node.setting() + ", "));
    copy_cuda_libraries(copies.path());
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"},
                         environment);
    exporter.wait_until_attached_to(copies / "libcudart.so.12");
    exporter.wait_until_attached_to(copies / "libcuda.so.1");
    Process idle = peaks_program("idle", {"allocate", "1", "300", "wait"}, {}, environment);
    Process empty =
        peaks_program("empty", {"allocate", "1", "300", "free", "1", "wait"}, {}, environment);
    peaks_next(idle, 2);
    peaks_next(empty, 2);
    const Process works(
        {standin("workload"), "--rate", "5", "--seconds", "600", "--leak", "5", "--name", "works"},
        environment);
    const Process hangs({standin("hangs"), "--threads", "40", "--name", "hangs"}, environment);
    hangs.wait_for_output("hanging");

    const auto idled = [&] { return exporter.scrape().sum(idle_family, {{"comm", "idle"}}); };
    std::this_thread::sleep_for(std::chrono::seconds(70));
    eventually("the idle time", [&] { return idled() > 0; });
    const double before = idled();
    eventually("the idle time to grow", [&] { return idled() > before; });
    const Page page = exporter.scrape();
    CHECK(page.sum(idle_family, {{"comm", "idle"}, {"last_work", "unknown"}}) == 0);
    CHECK(page.sum(idle_family, {{"comm", "idle"}, {"gpu", "0"}}) ==
          page.sum(idle_family, {{"comm", "idle"}}));
    for (const std::string comm : {"empty", "works", "hangs", "hanging", "holder"}) {
        CAPTURE(comm);
        CHECK_FALSE(page.has(idle_family, {{"comm", comm}}));
    }
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_bytes", {{"comm", "works"}}) > 0);
}
