// What named functions may cost a process: the dearest are observed intermittently, all others
// always.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/probes/functions/own_copy.h"
#include "tests/probes/functions/reload.h"

using namespace harness;

namespace {

constexpr const char *unobserved_functions = "gpusnoop_function_unobserved_seconds_total";
constexpr const char *paused_line = "they are observed intermittently";
constexpr const char *resumed_line = "the calls of a function are observed again";

double unobserved_of(const Page &page, const std::string &function) {
    return page.sum(unobserved_functions, {{"function", function}});
}

bool is_paused(const Exporter &exporter) {
    const std::string log = exporter.log();
    return count(log, paused_line) > count(log, resumed_line);
}

// The dear function is in one group with others, which are followed by return probes and by exits,
// and counted at their entry.
std::string functions_limit_config(const std::string &mode, const std::string &dear) {
    return "log: {level: debug}\ncuda: {enabled: false, max_overhead: 3%}\n" + own_groups(mode) +
           "    limited:\n      libraries: [" + OwnCopy::name + "]" + R"(
      functions:
        - )" +
           dear + R"(
        - calls_wait
        - calls_inner
        - {symbol: calls_status, errors: nonzero}
        - {name: "calls::choose", symbol: _ZN5calls6chooseEjl}
        - {symbol: calls_eight, entry_only: true}
)";
}

// An exporter, and a program that calls one function all the time.
struct DearProgram {
    // `beside` is started before it, if it is anything, and says "hanging".
    explicit DearProgram(const std::string &mode, const std::string &config,
                         const std::vector<std::string> &beside = {})
        : exporter(config),
          holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"},
                 copy.environment()) {
        exporter.wait_until_attached_to(copy.library());
        eventually("the cost of a probe to be measured", [&] {
            return exporter.scrape().has("gpusnoop_probe_cost_seconds", {{"mode", mode}});
        });
        if (!beside.empty()) {
            neighbour = std::make_unique<Process>(beside, copy.environment());
            neighbour->wait_for_output("hanging");
        }
        program = std::make_unique<Process>(
            std::vector<std::string>{standin("calls"), "--scenario", "dear_and_rare",
                                     "--until-stopped", "--name", "dear"},
            copy.environment());
    }

    explicit DearProgram(const std::string &mode)
        : DearProgram(mode, functions_limit_config(mode, "calls_plain")) {}

    void wait_for_pauses(std::size_t pauses) const {
        eventually("pauses", [&] { return count(exporter.log(), paused_line) >= pauses; });
    }

    OwnCopy copy;
    Exporter exporter;
    Process holder;  // so that the library stays attached to
    std::unique_ptr<Process> neighbour;
    std::unique_ptr<Process> program;
};

void check_exact(const Exporter &exporter, const CallsTruth &truth, const std::string &comm,
                 const std::vector<std::string> &names) {
    for (const std::string &name : names) {
        CAPTURE(name);
        const double true_calls = number(truth.at(name).returned);
        REQUIRE(true_calls > 0);
        const Page page =
            exporter.wait_for(calls_total, {{"comm", comm}, {"function", name}}, true_calls);
        CHECK(calls(page, comm, name) == true_calls);
    }
}

const std::vector<std::string> rare = {"calls_wait", "calls_inner", "calls_status", "calls::choose",
                                       "calls_eight"};

}  // namespace

TEST_CASE("a function that costs too much is observed intermittently, and others always",
          "[kernel][modes][beside]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const DearProgram dear(mode);
    const Exporter &exporter = dear.exporter;
    dear.wait_for_pauses(2);
    eventually("unobserved time",
               [&] { return unobserved_of(exporter.scrape(), "calls_plain") > 1; });

    dear.program->signal(SIGUSR1);
    dear.program->wait_for_output("slow");
    eventually("the function to be observed again", [&] { return !is_paused(exporter); });
    const double before = calls(exporter.scrape(), "dear", "calls_plain");
    eventually("calls of it to be counted again",
               [&] { return calls(exporter.scrape(), "dear", "calls_plain") > before + 100; });

    const CallsTruth truth = stop(*dear.program);
    check_exact(exporter, truth, "dear", rare);
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_function_errors_total",
                   {{"comm", "dear"}, {"function", "calls_status"}}) ==
          number(truth.at("calls_status").returned));
    CHECK(page.sum(unobserved_functions) == unobserved_of(page, "calls_plain"));
    CHECK(calls(page, "dear", "calls_plain") < number(truth.at("calls_plain").returned));
    check_account_at_rest(exporter);
}

TEST_CASE("after the pauses, all calls of a function that cost too much are counted",
          "[kernel][modes][beside]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const DearProgram dear(mode);
    const Exporter &exporter = dear.exporter;
    dear.wait_for_pauses(1);
    check_exact(exporter, stop(*dear.program), "dear", rare);
    eventually("the function to be observed again", [&] { return !is_paused(exporter); });
    std::vector<std::string> all = rare;
    all.emplace_back("calls_plain");
    check_exact(exporter, run_mix("after", dear.copy.environment()), "after", all);
}

TEST_CASE("a paused function that is to be counted in another way is attached to at once",
          "[kernel][modes][beside]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const DearProgram dear(mode);
    const Exporter &exporter = dear.exporter;
    dear.wait_for_pauses(3);
    REQUIRE(is_paused(exporter));
    reload(exporter, functions_limit_config(mode, "{symbol: calls_plain, buckets: [3us, 1ms]}"));
    eventually("the new buckets", [&] {
        return exporter.scrape().has(
            "gpusnoop_function_duration_seconds_bucket",
            {{"comm", "dear"}, {"function", "calls_plain"}, {"le", "0.000003"}});
    });
    check_exact(exporter, stop(*dear.program), "dear", rare);
}

TEST_CASE("the probes of a paused function are no reason to pause others",
          "[kernel][modes][beside]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const DearProgram dear(mode,
                           functions_limit_config(mode, "{symbol: calls_plain, endings: exits}"));
    const Exporter &exporter = dear.exporter;
    dear.wait_for_pauses(3);
    check_exact(exporter, stop(*dear.program), "dear", rare);
    const Page page = exporter.scrape();
    CHECK(page.sum(unobserved_functions) == unobserved_of(page, "calls_plain"));
}

// That functions are attached to again after a pause, in each mode, is shown above.
TEST_CASE("a pause ends with the processes behind it", "[kernel][beside]") {
    require_bpf();
    const DearProgram dear(attach_modes().front());
    const Exporter &exporter = dear.exporter;
    dear.wait_for_pauses(4);  // eight seconds
    REQUIRE(is_paused(exporter));
    stop(*dear.program);
    exporter.wait_for_log("the processes behind it have ended");
    CHECK_FALSE(is_paused(exporter));
}

TEST_CASE("a paused function keeps its series when a reload removes another function",
          "[kernel][long][beside]") {
    require_bpf();
    const std::string mode = attach_modes().front();
    std::string config = "series: {retention: 10s}\n" + functions_limit_config(mode, "calls_plain");
    const DearProgram dear(mode, config);
    const Exporter &exporter = dear.exporter;
    dear.wait_for_pauses(5);  // it lasts longer than series are kept
    const std::string removed = "        - calls_wait\n";
    config.erase(config.find(removed), removed.size());
    reload(exporter, config);
    Page page = exporter.scrape();
    eventually("the series of a removed function to go", [&] {
        page = exporter.scrape();
        return !page.has(calls_total, {{"comm", "dear"}, {"function", "calls_wait"}});
    });
    CHECK(page.has(calls_total, {{"comm", "dear"}, {"function", "calls_plain"}}));
}

TEST_CASE("a call that hangs stays in flight when another function of its group is paused",
          "[kernel][long][beside]") {
    require_bpf();
    const std::string mode = attach_modes().front();
    const DearProgram dear(
        mode,
        "in_flight: {min_age: 1ms}\n" +
            functions_limit_config(mode, "calls_plain\n        - calls_callback"),
        {standin("hangs"), "--threads", "1", "--only", "calls_callback", "--name", "hangs"});
    const Exporter &exporter = dear.exporter;
    const Labels of_call = {{"comm", "hangs"}, {"function", "calls_callback"}};
    dear.wait_for_pauses(1);
    CHECK(exporter.scrape().sum("gpusnoop_calls_in_flight", of_call) == 1);
    // Until the probes of the function, and with them those at its return, are detached.
    std::this_thread::sleep_for(std::chrono::seconds(65));
    CHECK(exporter.scrape().sum("gpusnoop_calls_in_flight", of_call) == 1);
    dear.neighbour->signal(SIGKILL);
    eventually("the call to be over",
               [&] { return !exporter.scrape().has("gpusnoop_calls_in_flight", of_call); });
}
