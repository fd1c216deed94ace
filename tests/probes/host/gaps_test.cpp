// The gaps in which a process gives its GPU nothing, against what a program has noted.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "bpf/host_time/host_time.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/guest.h"
#include "tests/harness/json_lines.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/trace.h"
#include "tests/probes/host/time.h"

using namespace harness;
using namespace harness::host_time;
using Json = nlohmann::json;

namespace {

using Steps = std::vector<std::string>;

Steps repeated(Steps steps, int times, const Steps &step, const Steps &last = {}) {
    for (int i = 0; i < times; i++) {
        steps.insert(steps.end(), step.begin(), step.end());
    }
    steps.insert(steps.end(), last.begin(), last.end());
    return steps;
}

double gaps(const Page &page, const std::string &what, const Labels &of) {
    const double by_drain = page.sum("gpusnoop_host_launch_gap_by_drain_seconds_" + what, of);
    if (!of.contains("drain")) {
        const double all = page.sum("gpusnoop_host_launch_gap_seconds_" + what, of);
        CHECK(std::abs(all - by_drain) < 1e-6);
    }
    return by_drain;
}

double in_state(const Page &page, const std::string &comm, const std::string &drain,
                const std::string &state) {
    return page.sum("gpusnoop_host_launch_gap_state_seconds_total",
                    {{"comm", comm}, {"drain", drain}, {"state", state}});
}

// All gaps of a process that are explained, by the document.
std::vector<Json> documented(const Exporter &exporter, const std::string &comm) {
    const HttpAnswer answer = http(exporter.port(), "/api/v1/launch_gaps?comm=" + comm);
    REQUIRE(answer.status == 200);
    return Json::parse(answer.body).at("launch_gaps");
}

// Of gaps in the document, or in a trace.
std::vector<Json> of_drain(std::vector<Json> all, const std::string &drain) {
    std::erase_if(all, [&](const Json &gap) { return gap.at("drain") != drain; });
    return all;
}

// Together they are what the page counts, state by state.
void check_documented(const std::vector<Json> &all, const Page &page, const Labels &of) {
    double seconds = 0;
    std::map<std::string, double> states;
    for (const Json &gap : all) {
        seconds += gap.at("seconds").get<double>();
        double sum = 0;
        for (const auto &[state, value] : gap.at("states").items()) {
            states[state] += value.get<double>();
            sum += value.get<double>();
        }
        CHECK(std::abs(sum - gap.at("seconds").get<double>()) < 1e-9);
    }
    CHECK(std::abs(seconds - gaps(page, "sum", of)) < 1e-6);
    for (const auto &[state, value] : states) {
        CAPTURE(state);
        CHECK(std::abs(value - in_state(page, of.at("comm"), of.at("drain"), state)) < 1e-6);
    }
}

}  // namespace

TEST_CASE("a launching thread's gaps are explained by what it did in them", "[kernel][core]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string sink = directory.path() / "gaps.jsonl";
    const Exporter exporter(host_time_config(GENERATE(from_range(attach_modes()))) +
                            "sinks: [{type: file, path: " + sink + ", events: launch_gaps}]\n");
    // The clocks of an emulated machine are wrong by a little at each step.
    const int steps = in_guest() ? 5 : 20;
    const auto words =
        repeated({"name", "gapper", "launch", "inside", "allocate", "burn", "1"}, steps,
                 {"inside", "synchronize", "sleep", "4", "burn", "5", "pipe", "8", "inside",
                  "allocate", "sleep", "3", "launch", "launch", "launch"},
                 {"wait"});
    Process process = start(exporter, words);
    process.go_on_to(2);
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
    double ready = 0;
    for (const auto &[of, seconds] : notes.spent) {
        in_calls += of.first == "memory" ? seconds : 0;
        ready += of == Cell{"memory", "runnable"} ? seconds : 0;
    }
    // A wait for a CPU can lie between the program's clock and the call, and what lies between two
    // steps inside of a call.
    const double between = std::accumulate(
        notes.spent.begin(), notes.spent.end(), notes.wall,
        [](double left, const auto &one) { return std::max(left - one.second, 0.0); });
    const double in_cuda = in_state(page, "gapper", "device", "cuda_call");
    CAPTURE(in_cuda, in_calls, between);
    CHECK(in_cuda >= 0.98 * (in_calls - ready) - slack());
    CHECK(in_cuda <= 1.02 * in_calls + slack() + between);
    const double ran = in_state(page, "gapper", "device", "running");
    CHECK(ran >= 0.98 * steps * 0.005);
    CHECK(ran <= notes.ran);
    // All of these gaps are long enough to be explained.
    const double explained = page.sum("gpusnoop_host_launch_gap_state_seconds_total", after_device);
    CHECK(std::abs(explained - gaps(page, "sum", after_device)) < 1e-6);

    const auto documented_gaps = of_drain(documented(exporter, "gapper"), "device");
    CHECK(static_cast<int>(documented_gaps.size()) == steps);
    check_documented(documented_gaps, page, after_device);
    std::vector<Json> told;
    eventually("the sink to have all gaps", [&] {
        told = of_drain(json_lines_of_file(sink), "device");
        std::erase_if(told, [](const Json &gap) { return gap.at("comm") != "gapper"; });
        return told.size() >= documented_gaps.size();
    });
    for (Json &gap : told) {
        CHECK(gap.at("event") == "launch_gap");
        gap.erase("event");
    }
    CHECK(std::ranges::is_permutation(told, documented_gaps));
    Json longest;
    for (const Json &gap : documented_gaps) {
        CHECK(gap.at("before") == "cudaDeviceSynchronize");
        CHECK(gap.at("after") == "cudaLaunchKernel");
        CHECK(gap.at("pid") == process.pid());
        CHECK(gap.at("tid") == process.pid());
        CHECK(gap.at("thread") == "gapper");
        const Json &block = gap.at("longest");
        if (block.is_null()) {  // on a busy machine, what it waits for can be there before it asks
            CHECK_FALSE(gap.at("states").contains("pipe"));
            continue;
        }
        CHECK(block.at("seconds") <= gap.at("states").at(block.at("state").get<std::string>()));
        // In a slow machine, the end of the writing thread can take longer.
        if (block.at("state") == "pipe" &&
            (longest.is_null() || longest.at("seconds") < block.at("seconds"))) {
            longest = block;
        }
    }
    // Of a pipe whose writer was on time.
    CAPTURE(longest.dump());
    REQUIRE(longest.is_object());
    CHECK(longest.at("call") == "read");
    CHECK(longest.at("filesystem").is_null());
    CHECK(longest.at("seconds") >= 0.98 * 0.008);
    CHECK(http(exporter.port(), "/api/v1/launch_gaps?state=pipe").status == 400);
    process.finish();
}

TEST_CASE("a sink for launch gaps without the probe that finds them is said in the log",
          "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string sink =
        "sinks: [{type: file, path: " + (directory / "gaps").string() + ", events: launch_gaps}]\n";
    const auto warns = [](const Exporter &exporter) {
        return exporter.log().find(
                   "no launch gaps are sent to sinks: they need host.time.enabled") !=
               std::string::npos;
    };
    CHECK(warns(Exporter(sink + "host: {time: {enabled: false}}\n")));
    CHECK_FALSE(warns(Exporter(sink + "host: {time: {enabled: true}}\n")));
}

TEST_CASE("a gap ends with the next launch of any thread of the process", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process = start(exporter, {"name", "turner", "turns", "20", "10", "wait"});
    process.go_on_to(2);
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
    // Each waited for its turn and then slept; half of its time is the other's gap. In a busy
    // machine, it waits for a CPU for a part of it.
    CHECK(in_state(page, "turner", "none", "sleep") > 0.2 * least / 1e9);
    CHECK(in_state(page, "turner", "none", "futex") > 0.2 * least / 1e9);
    const auto documented_gaps = documented(exporter, "turner");
    CHECK(documented_gaps.size() == 2 * (20 - 1));
    check_documented(documented_gaps, page, of);
    for (const Json &gap : documented_gaps) {
        CHECK(gap.at("before").is_null());  // the other thread's launch
        CHECK(gap.at("after") == "cudaLaunchKernel");
    }
    process.finish();
}

TEST_CASE("a wait says nothing of what another thread submits during it", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    const auto words =
        repeated({"name", "delegator", "launch", "inside", "allocate", "burn", "1"}, 10,
                 {"inside", "synchronize", "delegate", "2", "sleep", "5", "launch"}, {"wait"});
    Process process = start(exporter, words);
    process.go_on_to(2);
    const Page page = exporter.scrape();
    CHECK(gaps(page, "count", {{"comm", "delegator"}, {"drain", "none"}}) == 10);
    CHECK(gaps(page, "count", {{"comm", "delegator"}, {"drain", "device"}}) == 0);
    process.finish();
}

TEST_CASE("a second wait begins a gap if another thread has submitted something", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    const auto words =
        repeated({"name", "rewaiter", "launch", "inside", "allocate", "burn", "1"}, 10,
                 {"inside", "synchronize", "sleep", "2", "delegate", "2", "inside", "synchronize",
                  "sleep", "20", "sleep", "5", "launch"},
                 {"wait"});
    Process process = start(exporter, words);
    process.go_on_to(2);
    const Page page = exporter.scrape();
    const Labels after_device = {{"comm", "rewaiter"}, {"drain", "device"}};
    CHECK(gaps(page, "count", after_device) == 10);
    // The second wait is no part of the gap.
    CHECK(in_state(page, "rewaiter", "device", "cuda_call") == 0);
    CHECK(in_state(page, "rewaiter", "device", "sleep") >= 0.98 * 10 * 0.005);
    CHECK(gaps(page, "count", {{"comm", "rewaiter"}, {"drain", "none"}}) == 0);
    process.finish();
}

TEST_CASE("gaps and running time are of the GPU that is launched on", "[kernel]") {
    require_bpf();
    const GpuNode node(3);
    const Exporter exporter(host_time_config("auto") + node.config());
    const auto words = repeated({"name", "changer", "device", "0", "launch"}, 5,
                                {"sleep", "3", "launch", "device", "1", "sleep", "5", "burn", "20",
                                 "launch", "launch", "device", "0"},
                                {"wait"});
    Process changer =
        start(exporter, words, {{"STANDIN_DEVICES", "2"}, {"CUDA_VISIBLE_DEVICES", "2,1"}});
    changer.go_on_to(2);
    const Page page = exporter.scrape();
    INFO(changer.output());
    const auto of = [](const std::string &gpu) {
        return Labels{{"comm", "changer"}, {"gpu", gpu}};
    };
    CHECK(gaps(page, "count", of("2")) == 5);
    CHECK(gaps(page, "count", of("1")) == 2 * 5);
    CHECK(gaps(page, "count", {{"comm", "changer"}}) == 3 * 5);
    const auto slept = [&](const std::string &gpu) {
        return page.sum("gpusnoop_host_launch_gap_state_seconds_total",
                        {{"comm", "changer"}, {"gpu", gpu}, {"state", "sleep"}});
    };
    CHECK(slept("2") >= 5 * 0.003);
    CHECK(slept("1") >= 5 * 0.005);
    CHECK(is_near(slept("2") + slept("1"), notes_in(changer.output()).spent.at({"host", "sleep"})));
    // It ran since its last launch, or since it was last given a CPU then.
    const auto ran = [&](const Labels &labels) {
        return page.sum("gpusnoop_host_launch_thread_cpu_seconds_total", labels);
    };
    CHECK(is_near(ran(of("2")) + ran(of("1")), notes_in(changer.output()).ran));
    CHECK(ran({{"comm", "changer"}}) == ran(of("2")) + ran(of("1")));
    for (const Json &gap : documented(exporter, "changer")) {
        CHECK((gap.at("gpu") == "1" || gap.at("gpu") == "2"));
    }
    changer.finish();
    // What its thread had when it ended is there, too.
    CHECK(gaps(exporter.scrape(), "count", of("1")) == 2 * 5);
}

TEST_CASE("launches without a pause are gaps of the shortest kind", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_time_config("auto"));
    Process process = start(exporter, repeated({"name", "hurry"}, 500, {"launch"}, {"wait"}));
    process.go_on_to(2);
    // Calls come through a ring, gaps with the scrape.
    const Page page =
        exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "hurry"}}, 500);
    CHECK(gaps(page, "count", {{"comm", "hurry"}, {"drain", "none"}}) == 499);
    CHECK(page.sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "hurry"}}) == 500);
    process.finish();
}

TEST_CASE("a gap whose record finds no room is counted, and is lost for the document", "[kernel]") {
    require_bpf();
    Exporter exporter(without_company(host_time_config("auto")));
    constexpr int launches = 1'600;
    Process process = start(exporter, repeated({"name", "flooder"}, launches,
                                               {"launch", "sleep", "1"}, {"launch", "wait"}));
    exporter.process().signal(SIGSTOP);
    process.go_on_to(2);
    exporter.process().signal(SIGCONT);
    const Labels probe = {{"probe", "host_time"}};
    const Page page = exporter.scrape();
    CHECK(gaps(page, "count", {{"comm", "flooder"}}) == launches);
    // The ring's size, and what the kernel adds to each record.
    constexpr double room = (256 << 10) / (sizeof(host_gap_record) + 8);
    Labels lost = probe;
    lost["reason"] = "ring_full";
    CHECK(page.sum("gpusnoop_probe_events_lost_total", lost) == launches - std::floor(room));
    eventually("the account to balance", [&] {
        const Page now = exporter.scrape();
        return now.sum("gpusnoop_probe_entries_total", probe) ==
               now.sum("gpusnoop_probe_events_total", probe) +
                   now.sum("gpusnoop_probe_in_flight_calls", probe) +
                   now.sum("gpusnoop_probe_stale_calls_total", probe) +
                   now.sum("gpusnoop_probe_events_lost_total", probe);
    });
    CHECK(documented(exporter, "flooder").size() == 100);
    process.finish();
}

TEST_CASE("a trace of gaps has each that is explained, when it ends", "[kernel]") {
    require_bpf();
    Process process(repeated(
        {standin("spends"), "wait", "name", "shown", "launch"}, 10,
        {"inside", "synchronize", "sleep", "1", "sleep", "25", "launch", "sleep", "10", "launch"}));
    process.wait_for_output("waiting 1");
    Trace trace("gap", host_time_config("auto"),
                {"--comm=shown", "--min-duration=20ms", "--stack"});
    process.finish();
    eventually("all gaps", [&] { return trace.calls().size() == 10; });
    for (const Json &gap : trace.finish()) {
        CAPTURE(gap.dump());
        CHECK(gap.at("pid") == process.pid());
        CHECK(gap.at("tid") == process.pid());
        CHECK(gap.at("comm") == "shown");
        CHECK(gap.at("drain") == "device");
        CHECK(gap.at("before") == "cudaDeviceSynchronize");
        CHECK(gap.at("after") == "cudaLaunchKernel");
        CHECK(gap.at("duration_ns") >= 25'000'000);
        CHECK(gap.at("states").at("sleep") >= 20'000'000);
        // The C library's own frames may be missing.
        CHECK(std::ranges::any_of(gap.at("stack"), [](const Json &frame) {
            return frame.at("module") == "spends" && frame.at("function") == "main";
        }));
    }
}

TEST_CASE("a trace of gaps leaves out the one that was open when it began", "[kernel]") {
    require_bpf();
    const Process process(
        repeated({standin("spends"), "name", "paused", "wait"}, 2'000, {"launch", "sleep", "30"}));
    process.wait_for_output("waiting 1");
    process.signal(SIGUSR1);
    Trace trace("gap", host_time_config("auto"), {"--comm=paused", "--min-duration=20ms"});
    eventually("some gaps", [&] { return trace.calls().size() >= 5; });
    for (const Json &gap : trace.finish()) {
        CAPTURE(gap.dump());
        CHECK(gap.at("states").contains("sleep"));
        CHECK(gap.at("longest").contains("sleep"));
    }
}
