// What befalls a whole machine: most in guests only, as it would do harm elsewhere.
#include <signal.h>
#include <time.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/machine/memory_cgroup.h"

using namespace harness;

namespace fs = std::filesystem;

namespace {

void require_guest() {
    if (!in_guest()) {
        SKIP("this would harm the machine: scripts/vm.sh has others");
    }
}

void step_wall_clock(std::time_t seconds) {
    timespec time{};
    REQUIRE(::clock_gettime(CLOCK_REALTIME, &time) == 0);
    time.tv_sec += seconds;
    REQUIRE(::clock_settime(CLOCK_REALTIME, &time) == 0);
}

// The page has what the program's library counted, and holds.
void machine_faults_check_workload(const Exporter &exporter, const std::string &comm) {
    const TemporaryDirectory truth_directory;
    const Process workload(
        {standin("workload"), "--iterations", "50", "--leak", "1000", "--name", comm, "--hold"},
        {{"STANDIN_TRUTH_DIR", truth_directory.path().string()}});
    workload.wait_for_output("holding");
    const auto truths = truth::read_truth(truth_directory.path());
    REQUIRE(truths.size() == 1);
    REQUIRE(truths[0].launches > 0);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                                        static_cast<double>(truths[0].launches));
    check_counters(page, truths[0], comm);
    check_outstanding(page, truths[0]);
}

}  // namespace

TEST_CASE("steps of the wall clock change no count, no duration and no age", "[.guest]") {
    require_guest();
    require_bpf();
    constexpr std::time_t day = 24 * 60 * 60;
    const Exporter exporter;
    const Process opener({standin("workload"), "--iterations", "0", "--hold", "--name", "opener"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    machine_faults_check_workload(exporter, "before");
    const TemporaryDirectory of_holder;
    const Process holder(
        {standin("workload"), "--iterations", "10", "--leak", "1000", "--name", "holder", "--hold"},
        {{"STANDIN_TRUTH_DIR", of_holder.path().string()}});
    holder.wait_for_output("holding");
    const auto held = truth::read_truth(of_holder.path());
    REQUIRE(held.size() == 1);
    const Labels old = {{"pid", std::to_string(holder.pid())}, {"age", "1h"}};
    for (const std::time_t step : {day, -2 * day}) {
        CAPTURE(step);
        step_wall_clock(step);
        machine_faults_check_workload(exporter, step > 0 ? "ahead" : "behind");
        const Page page = exporter.scrape();
        // All of it is there since a moment ago.
        check_outstanding(page, held[0]);
        CHECK(page.has("gpusnoop_cuda_memory_outstanding_older_than_bytes", old));
        CHECK(page.sum("gpusnoop_cuda_memory_outstanding_older_than_bytes", old) == 0);
        CHECK(page.sum("gpusnoop_cuda_memcpy_duration_seconds_sum") < 600);
        CHECK(page.sum("gpusnoop_cuda_memcpy_duration_seconds_sum") > 0);
        check_nothing_lost(page);
    }
    step_wall_clock(day);
    CHECK(exporter.log().find("level=ERROR") == std::string::npos);
}

TEST_CASE("where memory runs out, the exporter is killed, programs run on, and the next one counts",
          "[.guest]") {
    require_guest();
    require_bpf();
    const fs::path all = "/sys/fs/cgroup";
    write_file(all / "cgroup.subtree_control", "+memory");
    const fs::path group = all / "gpusnoop-test";
    fs::create_directory(group);
    Process survivor(
        {standin("workload"), "--seconds", "3600", "--rate", "200", "--name", "survivor"});
    {
        Exporter exporter(
            "", {"sh", "-c", "echo $$ > " + (group / "cgroup.procs").string() + " && exec \"$@\"",
                 "sh"});
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
        machine_faults_check_workload(exporter, "first");
        // Far less than it has, and there is no swap.
        write_file(group / "memory.max", "1048576");
        for (int i = 0;
             i < 50 && read_file(group / "memory.events").find("oom_kill 0") != std::string::npos;
             i++) {
            (void)http(exporter.port(), "/metrics");
        }
        CHECK(exporter.process().wait() == 128 + SIGKILL);
    }
    fs::remove(group);
    const Exporter next;
    next.wait_until_attached_to(standin("12/libcudart.so.12"));
    machine_faults_check_workload(next, "second");
    const double launches =
        next.scrape().sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "survivor"}});
    eventually("the program that met both exporters to go on", [&] {
        return next.scrape().sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "survivor"}}) >
               launches;
    });
    survivor.signal(SIGTERM);
    CHECK(survivor.wait() == 0);
}

TEST_CASE("a kernel that is locked down is one sentence", "[.lockdown]") {
    require_guest();
    // There is no way back: this guest is of no more use.
    write_file("/sys/kernel/security/lockdown", "confidentiality");
    REQUIRE(read_file("/sys/kernel/security/lockdown").find("[confidentiality]") !=
            std::string::npos);
    const Finished finished = run({exporter_binary(), "--web.listen-address=127.0.0.1:0"});
    CAPTURE(finished.output);
    CHECK(finished.code == 1);
    CHECK(finished.output.find("lockdown") != std::string::npos);
}

TEST_CASE("a memory limit below what the exporter needs is said at the start", "[kernel]") {
    require_bpf();
    const auto cgroup = MemoryCgroup::make(100U << 20U);  // ends after the exporter
    if (!cgroup) {
        SKIP("this machine lets nobody limit memory");
    }
    const std::string enter =
        "echo $$ >" + (cgroup->path() / "cgroup.procs").string() + R"(; exec "$0" "$@")";
    const Exporter exporter("", {"sh", "-c", enter});
    CAPTURE(exporter.log());
    CHECK(exporter.log().find("memory: 100 MiB, it needs 128 MiB") != std::string::npos);
    CHECK(Exporter().log().find("it needs") == std::string::npos);
}
