// The time of launching threads, against a program that notes how it spends its time.
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/machine/cpu_cgroup.h"
#include "tests/harness/machine/directory.h"
#include "tests/probes/host/time.h"

using namespace harness;
using namespace harness::host_time;
using Json = nlohmann::json;

namespace {

constexpr auto seconds_total = "gpusnoop_host_launch_thread_seconds_total";
constexpr auto threads_gauge = "gpusnoop_host_launch_threads";

double now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double cell(const Page &page, const std::string &comm, const Cell &of) {
    return page.sum(seconds_total, {{"comm", comm}, {"phase", of.first}, {"state", of.second}});
}

double host_time_probe(const Page &page, const std::string &what) {
    return page.sum("gpusnoop_probe_" + what, {{"probe", "host_time"}});
}

double of_state(const Page &page, const std::string &comm, const std::string &state) {
    return page.sum(seconds_total, {{"comm", comm}, {"state", state}});
}

// Whether the thread wants to run does not depend on what it waits for: between the steps it may,
// too.
bool is_of_cpu(const std::string &state) {
    return state == "running" || state == "runnable" || state == "throttled" || state == "stolen";
}

// Each state is as long as the program has noted, and no other state has any time. Running and
// being ready are as long as the kernel says.
void check_states(const Page &page, const Notes &notes, const std::string &comm) {
    // To the program, this is a part of its waits.
    const double stolen = of_state(page, comm, "stolen");
    for (const auto &[of, truth] : notes.spent) {
        // Whoever is throttled is ready, by the kernel's account.
        const double counted =
            cell(page, comm, of) +
            (of.second == "runnable" ? cell(page, comm, {of.first, "throttled"}) : 0);
        CAPTURE(of.first, of.second, truth, counted);
        CHECK(counted >= 0.98 * truth - slack() - (is_of_cpu(of.second) ? 0 : stolen));
        CHECK((is_of_cpu(of.second) || counted <= 1.02 * truth + slack()));
    }
    const double between = std::accumulate(
        notes.spent.begin(), notes.spent.end(), notes.wall,
        [](double left, const auto &one) { return std::max(left - one.second, 0.0); });
    for (const Sample &sample : page.samples(seconds_total, {{"comm", comm}})) {
        const Cell of = {sample.labels.at("phase"), sample.labels.at("state")};
        CAPTURE(of.first, of.second, sample.value);
        // It waits for signals in the state `other`.
        CHECK((notes.spent.contains(of) || is_of_cpu(of.second) || of.second == "other" ||
               sample.value <= between + 0.02 * notes.wall + slack()));
    }
    const double ready = of_state(page, comm, "runnable") + of_state(page, comm, "throttled");
    CAPTURE(ready, notes.ready, of_state(page, comm, "running"), notes.ran);
    // The page has what the thread does before and after its notes, too.
    const double around = std::max(page.sum(seconds_total, {{"comm", comm}}) - notes.wall, 0.0);
    const auto has_all = [&](double counted, double truth) {
        return counted >= 0.98 * truth - slack() && counted <= 1.02 * truth + slack() + around;
    };
    CHECK(has_all(ready, notes.ready));
    CHECK(has_all(of_state(page, comm, "running"), notes.ran));
}

std::map<Cell, double> cells_in(const Json &seconds) {
    std::map<Cell, double> cells;
    for (const auto &[phase, states] : seconds.items()) {
        for (const auto &[state, value] : states.items()) {
            cells[{phase, state}] = value.get<double>();
        }
    }
    return cells;
}

Json threads_page(const Exporter &exporter, const std::string &comm) {
    const HttpAnswer answer = http(exporter.port(), "/api/v1/threads?comm=" + comm);
    REQUIRE(answer.status == 200);
    return Json::parse(answer.body);
}

// The document has what the page has. As all of it grows, the page lies between two documents; what
// is the same in both is equal. The thread waits for a signal meanwhile.
void check_documents(const Exporter &exporter, const Process &process, const std::string &comm) {
    const Json before = threads_page(exporter, comm);
    const Page page = exporter.scrape();
    const Json after = threads_page(exporter, comm);
    REQUIRE(before.at("processes").size() == 1);
    REQUIRE(before.at("threads").size() == 1);
    const auto low = cells_in(before.at("processes").at(0).at("seconds"));
    const auto high = cells_in(after.at("processes").at(0).at("seconds"));
    const std::size_t shown = page.samples(seconds_total, {{"comm", comm}}).size();
    CHECK(shown >= low.size());
    CHECK(shown <= high.size());
    std::size_t equal = 0;
    constexpr double half_a_nanosecond = 5e-10;
    for (const auto &[of, value] : high) {
        const double least = low.contains(of) ? low.at(of) : 0;
        CAPTURE(of.first, of.second, least, value);
        CHECK(cell(page, comm, of) >= least - half_a_nanosecond);
        CHECK(cell(page, comm, of) <= value + half_a_nanosecond);
        equal += least == value ? 1 : 0;
    }
    // It grows in the state `other`; to the clocks that differ a little, it may have run, too.
    CHECK(equal + 3 >= high.size());
    const Json &thread = after.at("threads").at(0);
    CHECK(cells_in(thread.at("seconds")) == high);
    CHECK(after.at("elapsed_seconds") > before.at("elapsed_seconds"));
    CHECK(thread.at("pid") == process.pid());
    CHECK(thread.at("tid") == process.pid());
    CHECK(thread.at("thread") == comm);
    CHECK(thread.at("phase") == "host");
    CHECK(thread.at("state") == "other");
    CHECK(thread.at("open_seconds") > before.at("threads").at(0).at("open_seconds"));
    CHECK(threads_page(exporter, "no" + comm).at("threads").empty());
    CHECK(http(exporter.port(), "/api/v1/threads?state=poll").status == 400);
}

// All cells together are the wall time.
Page check_cells(const Exporter &exporter, Process &process, const std::string &comm) {
    const double began = now();
    process.go_on_to(2);
    const Page page = exporter.scrape();
    const double elapsed = now() - began;
    INFO(process.output());
    const Notes notes = notes_in(process.output());
    REQUIRE(notes.wall > 0);
    check_states(page, notes, comm);
    const double all = page.sum(seconds_total, {{"comm", comm}});
    CHECK(all >= notes.wall);
    CHECK(all <= elapsed);
    CHECK(page.sum(threads_gauge, {{"comm", comm}}) == 1);
    CHECK(is_near(page.sum("gpusnoop_host_launch_thread_cpu_seconds_total", {{"comm", comm}}),
                  of_state(page, comm, "running")));
    // The threads that wake it wait for a CPU, too.
    const double latency =
        page.sum("gpusnoop_host_runqueue_latency_seconds_sum", {{"comm", comm}, {"role", "gpu"}});
    const double runnable = of_state(page, comm, "runnable");
    CAPTURE(latency, runnable);
    CHECK(latency >= 0.98 * runnable - slack());
    CHECK(latency <= 1.02 * runnable + (in_guest() ? 10 : 1) * slack());
    check_documents(exporter, process, comm);
    return page;
}

void host_time_check_at_rest(const Exporter &exporter) {
    Page page = exporter.scrape();
    eventually("the account to balance", [&] {
        page = exporter.scrape();
        // Other programs of the machine may be off the CPU at any time.
        return host_time_probe(page, "entries_total") ==
               host_time_probe(page, "events_total") + host_time_probe(page, "in_flight_calls") +
                   host_time_probe(page, "stale_calls_total");
    });
    CHECK(host_time_probe(page, "entries_total") > 0);
    CHECK(host_time_probe(page, "events_lost_total") == 0);
    CHECK(host_time_probe(page, "up") == 1);
}

}  // namespace

TEST_CASE("a launching thread's time is in the state that it spent it in", "[kernel][core]") {
    require_bpf();
    const Exporter exporter(host_time_config(GENERATE(from_range(attach_modes()))));
    const TemporaryDirectory directory;
    const std::string file = (directory / "file").string();
    const Process bystander = start(exporter, {"name", "bystander"});
    Process process =
        start(exporter,
              {"name", "spender", "launch", "burn", "300",    "sleep", "200",  "futex", "150",
               "poll", "100",     "pipe",   "120",  "socket", "130",   "recv", "110",   "terminal",
               "140",  "child",   "160",    "stop", "170",    "read",  file,   "64",    "fault",
               file,   "2000",    "sync",   file,   "20",     "wait"});
    (void)check_cells(exporter, process, "spender");
    CHECK_FALSE(exporter.scrape().has(seconds_total, {{"comm", "spends"}}));  // the bystander
    process.finish();
    host_time_check_at_rest(exporter);
    CHECK_FALSE(exporter.scrape().has(threads_gauge, {{"comm", "spender"}}));
}

TEST_CASE("a launching thread's time is in the phase of the CUDA call that it is in", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config(GENERATE(from_range(attach_modes()))));
    Process process =
        start(exporter,
              {"name", "phases", "launch",      "sleep", "50",  "inside", "launch",      "sleep",
               "60",   "inside", "set",         "poll",  "70",  "inside", "copy",        "futex",
               "80",   "inside", "copy_sync",   "pipe",  "90",  "inside", "allocate",    "sleep",
               "100",  "inside", "synchronize", "burn",  "110", "inside", "synchronize", "poll",
               "120",  "inside", "event",       "sleep", "130", "burn",   "40",          "wait"});
    (void)check_cells(exporter, process, "phases");
    process.finish();
    host_time_check_at_rest(exporter);
}

TEST_CASE("a launching thread that wants a CPU is runnable as long as the kernel says",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process =
        start(exporter, {"name", "competes", "launch", "pin", "0", "compete", "600", "wait"});
    const Page page = check_cells(exporter, process, "competes");
    CHECK(cell(page, "competes", {"host", "runnable"}) > 0.2);
}

TEST_CASE("a launching thread is throttled as long as its cgroup is", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    const CpuCgroup cgroup;  // ends after the process
    Process process = start(
        exporter, {"name", "throttled", "launch", "wait", "pin", "0", "burn_wall", "1000", "wait"});
    process.go_on_to(2);
    cgroup.take(process.pid());
    process.go_on_to(3);
    const Page page = exporter.scrape();
    INFO(process.output());
    const Notes notes = notes_in(process.output());
    check_states(page, notes, "throttled");
    // A group that has used more than its quota stays throttled when nothing in it wants to run any
    // more, so it is also no longer than the thread was ready.
    const double truth = std::min(cgroup.throttled(), notes.ready);
    REQUIRE(truth > 0.3);
    // Within two periods: it may be throttled between the two readings, and cpu.stat does not have
    // the time until the group may run again, for which a busy machine takes longer.
    constexpr double period = 0.1;
    const double throttled = cell(page, "throttled", {"host", "throttled"});
    CAPTURE(throttled, truth);
    CHECK(std::abs(throttled - truth) <= 0.02 * truth + 2 * period);
    process.finish();
}

TEST_CASE("a hanging thread shows the state that it hangs in, until it is killed", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process = start(exporter, {"name", "hanging", "launch", "hang"});
    const double began = now();
    process.signal(SIGUSR1);
    double last = 0;
    eventually("an interval that is still open to show", [&] {
        last = cell(exporter.scrape(), "hanging", {"host", "futex"});
        return last > 0.3;
    });
    const double next = cell(exporter.scrape(), "hanging", {"host", "futex"});
    CHECK(next > last);
    process.signal(SIGKILL);
    (void)process.wait();
    const double elapsed = now() - began;
    host_time_check_at_rest(exporter);
    const double all = exporter.scrape().sum(seconds_total, {{"comm", "hanging"}});
    CHECK(all >= next);
    CHECK(all <= elapsed);
}

TEST_CASE("a launching thread that is killed has its time in each state until then", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    for (const auto &[step, state] : std::map<std::string, std::string>{{"sleep", "sleep"},
                                                                        {"poll", "poll"},
                                                                        {"pipe", "pipe"},
                                                                        {"socket", "socket"},
                                                                        {"terminal", "device"},
                                                                        {"event", "other"},
                                                                        {"stop", "stopped"},
                                                                        {"burn_wall", "running"}}) {
        CAPTURE(step);
        const std::string comm = "in_" + step;
        Process process = start(exporter, {"name", comm, "launch", step, "60000"});
        const double began = now();
        process.signal(SIGUSR1);
        double last = 0;
        eventually("the state to show", [&] {
            last = cell(exporter.scrape(), comm, {"host", state});
            return last > 0.1;
        });
        process.signal(SIGKILL);
        (void)process.wait();
        const double elapsed = now() - began;
        host_time_check_at_rest(exporter);
        const Page page = exporter.scrape();
        CHECK(cell(page, comm, {"host", state}) >= last);
        CHECK(page.sum(seconds_total, {{"comm", comm}}) <= elapsed);
        CHECK_FALSE(page.has(threads_gauge, {{"comm", comm}}));
    }
}

TEST_CASE("a launching thread's time is in its states in real time, too", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process = start(exporter, {"name", "realtime", "launch", "realtime", "1", "burn", "200",
                                       "sleep", "100", "pipe", "120", "futex", "80", "wait"});
    (void)check_cells(exporter, process, "realtime");
    process.finish();
    host_time_check_at_rest(exporter);
}

TEST_CASE("a thousand launching threads that come and go are counted, each until its end",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process = start(exporter, {"name", "crowd", "crowd", "1000", "2", "wait"});
    process.go_on_to(2);
    const std::string output = process.output();
    double least = 0;
    double most = 0;
    std::istringstream(output.substr(output.find("crowd ") + 6)) >> least >> most;
    const double all = exporter.scrape().sum(seconds_total, {{"comm", "crowd"}});
    CHECK(all >= least / 1e9);
    CHECK(all <= most / 1e9);
    CHECK_FALSE(exporter.scrape().has(threads_gauge, {{"comm", "crowd"}}));
    process.finish();
    host_time_check_at_rest(exporter);
    CHECK(exporter.scrape().sum(seconds_total, {{"comm", "crowd"}}) == all);
}

TEST_CASE("an exec ends a launching thread's time, and the next program has its own", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process = start(exporter, {"name", "before", "launch", "sleep", "100", "exec", "name",
                                       "after", "launch", "sleep", "200", "wait"});
    process.signal(SIGUSR1);
    eventually("the next program to wait",
               [&] { return count(process.output(), "waiting 1\n") == 2; });
    Page page = exporter.scrape();
    eventually("the time of both programs", [&] {
        page = exporter.scrape();
        return page.has(seconds_total, {{"comm", "before"}}) &&
               is_near(cell(page, "after", {"host", "sleep"}), 0.2);
    });
    CHECK(is_near(cell(page, "before", {"host", "sleep"}), 0.1));
    CHECK_FALSE(page.has(threads_gauge, {{"comm", "before"}}));
    CHECK(page.sum(threads_gauge, {{"comm", "after"}}) == 1);
    process.finish();
    host_time_check_at_rest(exporter);
}
