// Many more threads than CPUs, all of which make calls: the exporter gets little of the CPU, and
// loses records. What is allocated must be right when that is over, and at the end of each process.
//
// GPUSNOOP_STARVE_SECONDS=900 probes_tests '[.starvation]' -c MODE runs it for that long in the
// mode `session`, `multi` or `perf`, and all three without -c.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int programs = 6;
constexpr const char *cuda_starvation_threads = "32";

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double cuda_starvation_lost(const Page &page) {
    return page.sum("gpusnoop_probe_events_lost_total", {{"reason", "ring_full"}});
}

Process load(const TemporaryDirectory &truth, const std::string &name, double seconds,
             std::vector<std::string> more) {
    std::vector<std::string> command = {standin("workload"),
                                        "--threads",
                                        cuda_starvation_threads,
                                        "--seconds",
                                        std::to_string(seconds),
                                        "--memory-kinds",
                                        "--failures",
                                        "--name",
                                        name};
    command.insert(command.end(), more.begin(), more.end());
    return Process(command, {{"STANDIN_TRUTH_DIR", truth.path().string()}});
}

std::map<std::string, std::vector<truth::TruthSnapshot>> truths_in(
    const TemporaryDirectory &directory) {
    std::map<std::string, std::vector<truth::TruthSnapshot>> by_comm;
    for (const auto &one : truth::read_truth(directory.path())) {
        by_comm[one.comm].push_back(one);
    }
    return by_comm;
}

// Of a process that runs.
bool is_outstanding(const Page &page, const truth::TruthSnapshot &truth) {
    const auto memory = truth.all_memory();
    const Labels of = {{"pid", std::to_string(truth.pid)}};
    const double bytes = page.sum("gpusnoop_cuda_memory_outstanding_bytes", of);
    UNSCOPED_INFO(truth.comm << ": " << bytes << " of " << memory.outstanding_bytes);
    return bytes == static_cast<double>(memory.outstanding_bytes) &&
           page.sum("gpusnoop_cuda_memory_outstanding_allocations", of) ==
               static_cast<double>(memory.outstanding_allocations);
}

// Of processes that have ended.
bool is_unfreed(const Page &page, const std::string &comm,
                const std::vector<truth::TruthSnapshot> &truths) {
    const auto memory = truth::sum(truths).all_memory();
    const Labels of = {{"comm", comm}};
    const double bytes = page.sum("gpusnoop_cuda_memory_unfreed_at_exit_bytes_total", of);
    UNSCOPED_INFO(comm << ": " << bytes << " of " << memory.outstanding_bytes);
    const double gone = page.sum("gpusnoop_cuda_memory_allocated_bytes_total", of) -
                        page.sum("gpusnoop_cuda_memory_freed_bytes_total", of);
    return bytes == static_cast<double>(memory.outstanding_bytes) && gone == bytes &&
           page.sum("gpusnoop_cuda_memory_unfreed_at_exit_allocations_total", of) ==
               static_cast<double>(memory.outstanding_allocations);
}

// Waits, and says how long it took.
void soon(const std::string &what, const Exporter &exporter,
          const std::function<bool(const Page &)> &is_right) {
    const auto start = Clock::now();
    eventually(what, [&] { return is_right(exporter.scrape()); });
    WARN(what << " after " << seconds_since(start) << " s");
}

// The names are of the mode: runs side by side do not count each other's programs.
void starve(const std::string &mode, const std::string &config, double seconds) {
    const std::string ender = "ender-" + mode;
    const Exporter exporter(config);
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const TemporaryDirectory directory;
    std::vector<Process> loads;
    for (int i = 0; i < programs; i++) {
        loads.push_back(
            load(directory, "load" + std::to_string(i) + "-" + mode, seconds, {"--hold"}));
    }
    // Others end while it goes on, and leave something.
    const auto start = Clock::now();
    do {
        CHECK(load(directory, ender, 0.5, {"--leak", "1000"}).wait() == 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    } while (seconds_since(start) < seconds);
    for (const Process &one : loads) {
        eventually(
            "the load to end", [&] { return one.output().find("holding") != std::string::npos; },
            std::chrono::seconds(120));
    }
    const auto truths = truths_in(directory);
    soon("what runs is right", exporter, [&](const Page &page) {
        bool right = true;
        for (const auto &[comm, of] : truths) {
            right = right && (comm == ender || is_outstanding(page, of.front()));
        }
        return right;
    });
    soon("what has ended is right", exporter,
         [&](const Page &page) { return is_unfreed(page, ender, truths.at(ender)); });
    for (std::size_t i = 0; i < loads.size(); i++) {
        loads[i].signal(i % 2 == 0 ? SIGKILL : SIGTERM);
        (void)loads[i].wait();
    }
    soon("the ends are right", exporter, [&](const Page &page) {
        bool right = true;
        for (const auto &[comm, of] : truths) {
            right = right && is_unfreed(page, comm, of);
        }
        return right;
    });
    // Other programs of the machine may make calls now and then.
    Page page = exporter.scrape();
    eventually("the account to balance", [&] {
        page = exporter.scrape();
        return page.sum("gpusnoop_probe_entries_total") ==
               page.sum("gpusnoop_probe_events_total") +
                   page.sum("gpusnoop_probe_stale_calls_total") +
                   page.sum("gpusnoop_probe_events_lost_total");
    });
    WARN(cuda_starvation_lost(page)
         << " of " << page.sum("gpusnoop_probe_entries_total") << " records were lost");
    CHECK_FALSE(page.has("gpusnoop_cuda_memory_outstanding_bytes", {{"comm", ender}}));
}

double long_enough() {
    const char *const text = std::getenv("GPUSNOOP_STARVE_SECONDS");
    return text != nullptr ? std::atof(text) : 60;
}

}  // namespace

TEST_CASE("a starved exporter's live allocations are right when the load ends, and at each end",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    // A ring in which much is lost, whatever the machine.
    starve(mode, attached_by(mode) + "  allocation_ring_bytes: 16KiB\n", 3);
}

TEST_CASE("a long time of starvation leaves the live allocations right", "[.starvation]") {
    require_bpf();
    SECTION("session") {
        starve("session", attached_by("session"), long_enough());
    }
    SECTION("multi") {
        starve("multi", attached_by("multi"), long_enough());
    }
    SECTION("perf") {
        starve("perf", attached_by("perf"), long_enough());
    }
}
