// What all threads of followed processes wait for, against a program that notes it.
#include <signal.h>
#include <sys/vfs.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "exporter/probes/host_time/calls.h"
#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/cpu_cgroup.h"
#include "tests/harness/machine/directory.h"
#include "tests/probes/host/time.h"

using namespace harness;
using namespace harness::host_time;

namespace {

constexpr auto blocked_total = "gpusnoop_host_blocked_seconds_total";
constexpr auto file_wait = "gpusnoop_host_file_wait_seconds";
constexpr auto latency_sum = "gpusnoop_host_runqueue_latency_seconds_sum";

double blocked(const Page &page, const std::string &comm, const std::string &role,
               const std::string &state) {
    return page.sum(blocked_total, {{"comm", comm}, {"role", role}, {"state", state}});
}

double noted(const Notes &notes, const std::string &state) {
    const auto found = notes.spent.find({"host", state});
    return found == notes.spent.end() ? 0 : found->second;
}

// The program waits for a signal, and has printed what it has noted.
Page check_waits(const Exporter &exporter, const Process &process, const std::string &comm,
                 const std::string &role) {
    const Page page = exporter.scrape();
    INFO(process.output());
    const Notes notes = notes_in(process.output());
    for (const std::string state : {"pipe", "socket", "device", "file", "page_fault"}) {
        CAPTURE(state, noted(notes, state), blocked(page, comm, role, state));
        CHECK(is_near(blocked(page, comm, role, state), noted(notes, state), notes.stolen));
    }
    // Idle threads sit in these.
    for (const std::string state : {"futex", "poll", "sleep", "other", "running"}) {
        CHECK_FALSE(page.has(blocked_total, {{"comm", comm}, {"state", state}}));
    }
    // Other threads wake it, and wait for a CPU, too.
    const double latency = page.sum(latency_sum, {{"comm", comm}, {"role", role}});
    CAPTURE(latency, notes.ready);
    CHECK(latency >= 0.98 * notes.ready - slack());
    CHECK(latency <= 1.02 * notes.ready + 10 * slack());
    CHECK(is_near(page.sum(file_wait + std::string("_sum"), {{"comm", comm}, {"role", role}}),
                  blocked(page, comm, role, "file")));
    return page;
}

// Each wait is counted, by the file system of its file.
void check_file_waits(const Page &page, const Notes &notes, const std::string &role,
                      const TemporaryDirectory &directory) {
    const auto count = [&](const std::string &filesystem) {
        return page.sum(file_wait + std::string("_count"),
                        {{"role", role}, {"filesystem", filesystem}});
    };
    struct statfs place{};
    REQUIRE(::statfs(directory.path().c_str(), &place) == 0);
    const std::string filesystem(
        gpusnoop::probes::filesystem_name(static_cast<std::uint32_t>(place.f_type)));
    const double waits = page.sum(file_wait + std::string("_count"), {{"role", role}});
    CAPTURE(filesystem, waits);
    CHECK(waits >= notes.waits.at({"host", "file"}));
    CHECK(waits <= notes.waits.at({"all", "all"}));
    // In memory, no file is waited for.
    CHECK((count(filesystem) > 0 || notes.waits.at({"host", "file"}) == 0));
    CHECK(count(filesystem) + count("unknown") == waits);
}

std::vector<std::string> all_waits(const std::string &file) {
    return {"sleep",  "60",    "futex", "50",   "poll",     "40",  "pipe", "120",
            "socket", "130",   "recv",  "110",  "terminal", "140", "read", file,
            "64",     "fault", file,    "2000", "sync",     file,  "20",   "wait"};
}

std::vector<std::string> after(std::vector<std::string> steps,
                               const std::vector<std::string> &more) {
    steps.insert(steps.end(), more.begin(), more.end());
    return steps;
}

void finish(const Exporter &exporter, Process &process) {
    process.finish();
    const auto probe = [&](const std::string &what) {
        return exporter.scrape().sum("gpusnoop_probe_" + what, {{"probe", "host_time"}});
    };
    CHECK(probe("events_lost_total") == 0);
    CHECK(probe("up") == 1);
}

}  // namespace

TEST_CASE("a launching thread's waits are those of all threads, too", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    const TemporaryDirectory directory;
    Process process = start(
        exporter, after({"name", "launches", "launch"}, all_waits((directory / "file").string())));
    process.go_on_to(2);
    const Page page = check_waits(exporter, process, "launches", "gpu");
    check_file_waits(page, notes_in(process.output()), "gpu", directory);
    finish(exporter, process);
}

TEST_CASE("a worker waits as long as it has noted", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config(GENERATE(from_range(attach_modes()))));
    const TemporaryDirectory directory;
    Process process = start(exporter, after({"name", "loads", "launch", "worker"},
                                            all_waits((directory / "file").string())));
    process.go_on_to(2);
    const Page page = check_waits(exporter, process, "loads", "worker");
    check_file_waits(page, notes_in(process.output()), "worker", directory);
    finish(exporter, process);
    // What an ended worker has waited stays.
    CHECK(blocked(exporter.scrape(), "loads", "worker", "pipe") >=
          blocked(page, "loads", "worker", "pipe"));
}

TEST_CASE("a thread that becomes a launching one keeps its waits", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    // Another thread makes it a GPU process, while this one is there already.
    Process process = start(exporter, {"name", "becomes", "delegate", "10", "wait", "pipe", "150",
                                       "socket", "50", "launch", "pipe", "200", "wait"});
    process.go_on_to(2);
    eventually("it to be a GPU process", [&] {
        return exporter.scrape().has("gpusnoop_host_launch_thread_seconds_total",
                                     {{"comm", "becomes"}});
    });
    const auto began = std::chrono::steady_clock::now();
    process.go_on_to(3);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    const Page page = exporter.scrape();
    INFO(process.output());
    // On a busy machine each wait is longer than it was to be. The program has noted the last one,
    // with the end of the thread that ended it.
    const double as_launching = page.sum("gpusnoop_host_launch_thread_seconds_total",
                                         {{"comm", "becomes"}, {"state", "pipe"}});
    const double in_pipes = blocked(page, "becomes", "gpu", "pipe");
    const double in_sockets = blocked(page, "becomes", "gpu", "socket");
    CAPTURE(as_launching, in_pipes, in_sockets);
    CHECK(as_launching >= 0.98 * 0.2 - slack());
    CHECK(as_launching <= notes_in(process.output()).spent.at({"host", "pipe"}) + slack());
    CHECK(in_pipes - as_launching >= 0.98 * 0.15 - slack());
    CHECK(in_sockets >= 0.98 * 0.05 - slack());
    CHECK(in_pipes + in_sockets <= took.count() + slack());
    finish(exporter, process);
}

TEST_CASE("a wait that is still open is shown, and ends with the worker that is killed in it",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process = start(exporter, {"name", "hangs", "launch", "worker", "pipe", "60000"});
    process.signal(SIGUSR1);
    double last = 0;
    eventually("an open wait to show", [&] {
        last = blocked(exporter.scrape(), "hangs", "worker", "pipe");
        return last > 0.3;
    });
    const double next = blocked(exporter.scrape(), "hangs", "worker", "pipe");
    CHECK(next > last);
    process.signal(SIGKILL);
    (void)process.wait();
    CHECK(blocked(exporter.scrape(), "hangs", "worker", "pipe") >= next);
}

TEST_CASE("a worker that becomes another program begins to count again", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process = start(exporter, {"name", "first", "launch", "worker", "pipe", "100", "exec",
                                       "socket", "150", "wait"});
    process.signal(SIGUSR1);
    eventually("the next program to wait",
               [&] { return count(process.output(), "waiting 1\n") == 2; });
    Page page = exporter.scrape();
    eventually("the first program's waits", [&] {
        page = exporter.scrape();
        return page.has(blocked_total, {{"comm", "first"}, {"role", "worker"}});
    });
    for (const Sample &sample : page.samples(blocked_total)) {
        UNSCOPED_INFO(sample.labels.at("comm") << ' ' << sample.labels.at("role") << ' '
                                               << sample.labels.at("state") << ' ' << sample.value);
    }
    CHECK(is_near(blocked(page, "first", "worker", "pipe"), 0.1));
    CHECK_FALSE(page.has(blocked_total, {{"comm", "first"}, {"state", "socket"}}));
    CHECK(is_near(blocked(page, "exe", "worker", "socket"), 0.15));
    CHECK_FALSE(page.has(blocked_total, {{"comm", "exe"}, {"state", "pipe"}}));
    process.signal(SIGKILL);
    (void)process.wait();
}

TEST_CASE("a worker is throttled as long as its cgroup is", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    const CpuCgroup cgroup;  // ends after the process
    Process process = start(exporter, {"name", "limits", "launch", "wait", "worker", "pin", "0",
                                       "burn_wall", "1000", "wait"});
    process.go_on_to(2);
    cgroup.take(process.pid());
    process.go_on_to(3);
    const double throttled = blocked(exporter.scrape(), "limits", "worker", "throttled");
    const double truth = cgroup.throttled();
    INFO(process.output());
    REQUIRE(truth > 0.3);
    // As with launching threads: within a period.
    constexpr double period = 0.1;
    CAPTURE(throttled, truth);
    CHECK(std::abs(throttled - truth) <= 0.02 * truth + period);
    process.signal(SIGKILL);
    (void)process.wait();
}
