// The gaps in which a process gives its GPU nothing, against what a program has noted.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/probes/host_time.h"

using namespace harness;
using namespace harness::host_time;

namespace {

double gaps(const Page &page, const std::string &what, const Labels &of) {
    return page.sum("gpusnoop_host_launch_gap_seconds_" + what, of);
}

double in_state(const Page &page, const std::string &comm, const std::string &drain,
                const std::string &state) {
    return page.sum("gpusnoop_host_launch_gap_state_seconds_total",
                    {{"comm", comm}, {"drain", drain}, {"state", state}});
}

}  // namespace

TEST_CASE("a launching thread's gaps are explained by what it did in them",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const Exporter exporter(config(GENERATE(from_range(attach_modes()))));
    // The clocks of an emulated machine are wrong by a little at each step.
    const int steps = std::getenv("GPUSNOOP_VM") == nullptr ? 20 : 5;
    std::vector<std::string> words = {"name",     "gapper", "launch", "inside",
                                      "allocate", "burn",   "1"};
    for (int i = 0; i < steps; i++) {
        const std::vector<std::string> step = {
            "inside", "synchronize", "sleep", "4", "burn",   "5",      "pipe",  "8",
            "inside", "allocate",    "sleep", "3", "launch", "launch", "launch"};
        words.insert(words.end(), step.begin(), step.end());
    }
    words.emplace_back("wait");
    Process process = start(exporter, words);
    process.signal(SIGUSR1);
    process.wait_for_output("waiting 2");
    const Page page = exporter.scrape();
    INFO(process.output());
    const Notes notes = notes_in(process.output());

    const Labels after_device = {{"comm", "gapper"}, {"drain", "device"}};
    CHECK(gaps(page, "count", after_device) == steps);
    CHECK(gaps(page, "count", {{"comm", "gapper"}, {"drain", "none"}}) == 2 * steps);
    CHECK(gaps(page, "count", {{"comm", "gapper"}, {"drain", "stream"}}) == 0);
    // To the program, the end of the writing thread is a part of the step.
    const double pipe = in_state(page, "gapper", "device", "pipe");
    const double futex = in_state(page, "gapper", "device", "futex");
    CAPTURE(pipe, futex);
    CHECK(pipe >= 0.98 * steps * 0.008);
    CHECK(is_near(pipe + futex, notes.spent.at({"host", "pipe"})));
    double in_calls = 0;
    for (const auto &[of, seconds] : notes.spent) {
        in_calls += of.first == "memory" ? seconds : 0;
    }
    CHECK(is_near(in_state(page, "gapper", "device", "cuda_call"), in_calls));
    const double ran = in_state(page, "gapper", "device", "running");
    CHECK(ran >= 0.98 * steps * 0.005);
    CHECK(ran <= notes.ran);
    // All of these gaps are long enough to be explained.
    const double explained = page.sum("gpusnoop_host_launch_gap_state_seconds_total", after_device);
    CHECK(std::abs(explained - gaps(page, "sum", after_device)) < 1e-6);
    process.signal(SIGUSR1);
    CHECK(process.wait() == 0);
}

TEST_CASE("a gap ends with the next launch of any thread of the process", "[kernel]") {
    require_bpf();
    const Exporter exporter(config("auto"));
    Process process = start(exporter, {"name", "turner", "turns", "20", "10", "wait"});
    process.signal(SIGUSR1);
    process.wait_for_output("waiting 2");
    const Page page = exporter.scrape();
    INFO(process.output());
    std::istringstream words(process.output().substr(process.output().find("turns ") + 6));
    double least = 0;
    double most = 0;
    words >> least >> most;
    REQUIRE(least > 0);

    const Labels of = {{"comm", "turner"}, {"drain", "none"}};
    CHECK(gaps(page, "count", of) == 2 * (20 - 1));
    CHECK(gaps(page, "sum", of) >= least / 1e9);
    CHECK(gaps(page, "sum", of) <= most / 1e9);
    // Each waited for its turn and then slept; half of its time is the other's gap.
    CHECK(in_state(page, "turner", "none", "sleep") > 0.4 * least / 1e9);
    CHECK(in_state(page, "turner", "none", "futex") > 0.3 * least / 1e9);
    process.signal(SIGUSR1);
    CHECK(process.wait() == 0);
}

TEST_CASE("a wait says nothing of what another thread submits during it", "[kernel]") {
    require_bpf();
    const Exporter exporter(config("auto"));
    std::vector<std::string> words = {"name",     "delegator", "launch", "inside",
                                      "allocate", "burn",      "1"};
    for (int i = 0; i < 10; i++) {
        const std::vector<std::string> step = {"inside", "synchronize", "delegate", "2",
                                               "sleep",  "5",           "launch"};
        words.insert(words.end(), step.begin(), step.end());
    }
    words.emplace_back("wait");
    Process process = start(exporter, words);
    process.signal(SIGUSR1);
    process.wait_for_output("waiting 2");
    const Page page = exporter.scrape();
    CHECK(gaps(page, "count", {{"comm", "delegator"}, {"drain", "none"}}) == 10);
    CHECK(gaps(page, "count", {{"comm", "delegator"}, {"drain", "device"}}) == 0);
    process.signal(SIGUSR1);
    CHECK(process.wait() == 0);
}

TEST_CASE("a second wait begins a gap if another thread has submitted something", "[kernel]") {
    require_bpf();
    const Exporter exporter(config("auto"));
    std::vector<std::string> words = {"name",     "rewaiter", "launch", "inside",
                                      "allocate", "burn",     "1"};
    for (int i = 0; i < 10; i++) {
        const std::vector<std::string> step = {
            "inside",      "synchronize", "sleep", "2",     "delegate", "2",     "inside",
            "synchronize", "sleep",       "20",    "sleep", "5",        "launch"};
        words.insert(words.end(), step.begin(), step.end());
    }
    words.emplace_back("wait");
    Process process = start(exporter, words);
    process.signal(SIGUSR1);
    process.wait_for_output("waiting 2");
    const Page page = exporter.scrape();
    const Labels after_device = {{"comm", "rewaiter"}, {"drain", "device"}};
    CHECK(gaps(page, "count", after_device) == 10);
    // The second wait is no part of the gap.
    CHECK(in_state(page, "rewaiter", "device", "cuda_call") == 0);
    CHECK(in_state(page, "rewaiter", "device", "sleep") >= 0.98 * 10 * 0.005);
    CHECK(gaps(page, "count", {{"comm", "rewaiter"}, {"drain", "none"}}) == 0);
    process.signal(SIGUSR1);
    CHECK(process.wait() == 0);
}

TEST_CASE("launches without a pause are gaps of the shortest kind", "[kernel]") {
    require_bpf();
    const Exporter exporter(config("auto"));
    std::vector<std::string> words = {"name", "hurry"};
    words.insert(words.end(), 500, "launch");
    words.emplace_back("wait");
    Process process = start(exporter, words);
    process.signal(SIGUSR1);
    process.wait_for_output("waiting 2");
    const Page page = exporter.scrape();
    CHECK(gaps(page, "count", {{"comm", "hurry"}, {"drain", "none"}}) == 499);
    CHECK(page.sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "hurry"}}) == 500);
    process.signal(SIGUSR1);
    CHECK(process.wait() == 0);
}
