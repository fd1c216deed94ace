// The functions of the configuration on real processes: what the page says against what the
// functions counted of themselves, however they were left.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <sstream>

#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"

using namespace harness;

namespace {

const Labels of_probe = {{"probe", "functions"}};

struct FunctionsScenario {
    std::string name;
    int code = 0;
    // "fragile": a return probe on a C function breaks it. "lossy": not every call can be counted.
    std::string remark;
};

std::vector<FunctionsScenario> functions_scenarios() {
    std::istringstream lines(run({standin("calls"), "--list"}).output);
    std::vector<FunctionsScenario> all;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        FunctionsScenario scenario;
        words >> scenario.name >> scenario.code >> scenario.remark;
        all.push_back(scenario);
    }
    REQUIRE(all.size() > 10);
    return all;
}

std::vector<std::string> functions_command(const std::string &scenario, const std::string &comm,
                                           const std::string &threads = "16") {
    return {standin("calls"), "--scenario",   scenario,
            "--name",         comm,           "--threads",
            threads,          "--iterations", in_guest() ? "50" : "1000"};
}

// A process that does nothing but keep the library in use, so that it is attached to before the
// processes of the test start.
Process functions_hold_library(const Exporter &exporter) {
    Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    return holder;
}

// Runs the mix, and returns what it did.
CallsTruth run_functions_mix(const std::string &comm, const std::string &threads = "4") {
    const Finished traced = run(functions_command("mix", comm, threads));
    REQUIRE(traced.code == 0);
    return parse_calls(traced.output);
}

Page functions_wait_for_calls(const Exporter &exporter, const std::string &comm, double calls) {
    return exporter.wait_for("gpusnoop_function_calls_total", {{"comm", comm}}, calls);
}

// Runs a scenario under the exporter, and compares it with the same without.
CallsTruth functions_check_same(const FunctionsScenario &scenario, const Finished &untraced,
                                const std::string &comm) {
    const Finished traced = run(functions_command(scenario.name, comm));
    CHECK(traced.code == scenario.code);
    CHECK(traced.code == untraced.code);
    CHECK(without_times(traced.output) == without_times(untraced.output));
    return parse_calls(traced.output);
}

// With all of these.
bool has_line_with(const std::string &text, const std::vector<std::string> &parts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (std::ranges::all_of(
                parts, [&](const auto &part) { return line.find(part) != std::string::npos; })) {
            return true;
        }
    }
    return false;
}

}  // namespace

TEST_CASE("the calls of every function are counted, and programs do as they do untraced",
          "[kernel][core][modes]") {
    require_bpf();
    const CallsConfig config{.mode = GENERATE(from_range(attach_modes()))};
    const auto all = functions_scenarios();
    std::vector<Finished> untraced;
    for (const FunctionsScenario &scenario : all) {
        untraced.push_back(run(functions_command(scenario.name, "untraced")));
        CHECK(untraced.back().code == scenario.code);
    }
    const Exporter exporter(calls_config(config));
    const Process holder = functions_hold_library(exporter);
    // An attach in pairs can cut a call in half; after that there must be none.
    const Page before = exporter.scrape();
    const double unmatched = before.sum("gpusnoop_probe_unmatched_returns_total", of_probe);
    double stale = before.sum("gpusnoop_probe_stale_calls_total", of_probe);
    for (std::size_t i = 0; i < all.size(); i++) {
        if (!all[i].remark.empty()) {
            continue;
        }
        CAPTURE(config.mode, all[i].name);
        const std::string comm = "calls" + std::to_string(i);
        const CallsTruth truth = functions_check_same(all[i], untraced[i], comm);
        REQUIRE(truth.size() == calls_functions().size());
        check_calls(functions_wait_for_calls(exporter, comm, counted_calls(truth)), truth, comm,
                    config);
        check_account_at_rest(exporter);
        const Page page = exporter.scrape();
        stale += left_calls(truth);
        CHECK(page.sum("gpusnoop_probe_stale_calls_total", of_probe) == stale);
        CHECK(page.sum("gpusnoop_probe_unmatched_returns_total", of_probe) == unmatched);
    }

    // Of those that died of a signal, those that did inside of a call.
    for (const std::string signal : {"SIGSEGV", "SIGTRAP", "SIGILL", "SIGSYS"}) {
        CHECK(exporter.scrape().sum("gpusnoop_process_deaths_in_traced_calls_total",
                                    {{"probe", "functions"}, {"signal", signal}}) == 1);
    }

    // The last, as an account with losses is never whole again.
    for (std::size_t i = 0; i < all.size(); i++) {
        if (all[i].remark != "lossy") {
            continue;
        }
        CAPTURE(config.mode, all[i].name);
        functions_check_same(all[i], untraced[i], "lossy");
        eventually("no call to be in flight", [&] {
            return exporter.scrape().sum("gpusnoop_probe_in_flight_calls", of_probe) == 0;
        });
        // What comes after it is counted as ever.
        const std::string comm = "after" + std::to_string(i);
        const CallsTruth truth = run_functions_mix(comm);
        check_calls(functions_wait_for_calls(exporter, comm, counted_calls(truth)), truth, comm,
                    config);
        const Page page = exporter.scrape();
        CHECK(page.sum("gpusnoop_probe_entries_total", of_probe) ==
              page.sum("gpusnoop_probe_events_total", of_probe) +
                  page.sum("gpusnoop_probe_stale_calls_total", of_probe) +
                  page.sum("gpusnoop_probe_events_lost_total", of_probe));
    }
}

TEST_CASE("with probes at exits, exceptions pass through C functions, and every call is counted",
          "[kernel][modes]") {
    require_bpf();
    // In multi mode, probes at exits are those of session mode.
    const CallsConfig config{.mode = GENERATE(from_range(attach_modes({"session", "perf"}))),
                             .endings = "exits"};
    const auto all = functions_scenarios();
    std::vector<Finished> untraced;
    for (const FunctionsScenario &scenario : all) {
        untraced.push_back(run(functions_command(scenario.name, "untraced")));
    }
    Exporter exporter(calls_config(config));
    const Process holder = functions_hold_library(exporter);
    double stale = 0;
    for (std::size_t i = 0; i < all.size(); i++) {
        if (all[i].remark == "lossy") {
            continue;
        }
        CAPTURE(config.mode, all[i].name);
        const std::string comm = "exits" + std::to_string(i);
        const CallsTruth truth = functions_check_same(all[i], untraced[i], comm);
        check_calls(functions_wait_for_calls(exporter, comm, counted_calls(truth)), truth, comm,
                    config);
        check_account_at_rest(exporter);
        stale += left_calls(truth);
        CHECK(exporter.scrape().sum("gpusnoop_probe_stale_calls_total", of_probe) == stale);
    }
    if (config.mode == "perf") {
        exporter.end_by_perf();
    }
}

TEST_CASE("a program whose system calls are handled elsewhere is named", "[kernel]") {
    require_bpf();
    const Exporter exporter(calls_config({}));
    const Process holder = functions_hold_library(exporter);
    const Finished traced = run(functions_command("dispatched", "dispatched"));
    eventually("a line on the sandbox: " + exporter.log(), [&] {
        return has_line_with(exporter.log(), {"level=WARN", "comm=dispatched",
                                              "handled_by=\"syscall user dispatch\""});
    });
    if (traced.code == 0) {
        return;  // a kernel whose return probe is no system call
    }
    CHECK(traced.code == 128 + SIGSYS);
}

TEST_CASE("counted at their entry, functions can have exceptions pass through them in C as well",
          "[kernel][modes]") {
    require_bpf();
    // In multi mode, entries are those of "the calls of every function are counted".
    const CallsConfig config{.mode = GENERATE(from_range(attach_modes({"session", "perf"}))),
                             .entry_only = true};
    const auto all = functions_scenarios();
    std::vector<Finished> untraced;
    for (const FunctionsScenario &scenario : all) {
        untraced.push_back(run(functions_command(scenario.name, "untraced")));
    }
    Exporter exporter(calls_config(config));
    const Process holder = functions_hold_library(exporter);
    for (std::size_t i = 0; i < all.size(); i++) {
        CAPTURE(config.mode, all[i].name);
        const std::string comm = "entries" + std::to_string(i);
        const CallsTruth truth = functions_check_same(all[i], untraced[i], comm);
        const double calls = counted_calls(truth, true);
        check_calls(functions_wait_for_calls(exporter, comm, calls), truth, comm, config);
    }
    check_account_at_rest(exporter);
    CHECK(exporter.scrape().sum("gpusnoop_probe_stale_calls_total", of_probe) == 0);
    if (config.mode == "perf") {
        exporter.end_by_perf();
    }
}

TEST_CASE("a function without an exit that a probe can tell is counted at its entry by itself",
          "[kernel]") {
    require_bpf();
    const CallsConfig config{.say_at_entry = false};
    const Exporter exporter(calls_config(config));
    const Process holder = functions_hold_library(exporter);
    for (const std::string scenario : {"mix", "no_return"}) {
        CAPTURE(scenario);
        const Finished traced = run(functions_command(scenario, scenario, "4"));
        CHECK(traced.code == 0);
        const CallsTruth truth = parse_calls(traced.output);
        check_calls(functions_wait_for_calls(exporter, scenario, counted_calls(truth)), truth,
                    scenario, config);
    }
    check_account_at_rest(exporter);
}

TEST_CASE("names that a library does not have are reported, and the others are traced",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(only_groups("auto") + R"(
    some_missing:
      libraries: ["libcalls.so*"]
      functions:
        - calls_plain
        - calls_no_such_function
        - {name: "calls::gone", symbol: _ZN5calls4goneEv}
)");
    const Process holder = functions_hold_library(exporter);
    eventually("a line on the missing functions: " + exporter.log(), [&] {
        return has_line_with(exporter.log(), {"level=WARN", "not found", "some_missing",
                                              "calls_no_such_function", "gone"});
    });
    const CallsCount plain = run_functions_mix("missing").at("calls_plain");
    const Page page = functions_wait_for_calls(exporter, "missing", number(plain.entered));
    CHECK(page.sum("gpusnoop_function_calls_total",
                   {{"comm", "missing"}, {"function", "calls_plain"}}) == number(plain.entered));
    CHECK(page.sum("gpusnoop_probe_attached_functions", of_probe) == 1);
}

TEST_CASE("two copies of a library are each attached to once, and counted as one", "[kernel]") {
    require_bpf();
    const Exporter exporter(calls_config({}));
    const TemporaryDirectory directory;
    std::filesystem::copy_file(standin("libcalls.so.1"), directory / "libcalls.so.1");
    std::vector<Process> runs;
    for (int i = 0; i < 4; i++) {
        std::vector<std::string> arguments = functions_command("mix_with_leaving", "copies", "2");
        arguments.insert(arguments.end(), {"--seed", std::to_string(i), "--wait-for-file",
                                           directory / "go", "--hold"});
        runs.emplace_back(
            arguments, i % 2 == 0
                           ? Process::Environment{}
                           : Process::Environment{{"LD_LIBRARY_PATH", directory.path().string()}});
    }
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    exporter.wait_until_attached_to(directory / "libcalls.so.1");
    write_file(directory / "go", "");
    CallsTruth truth;
    for (const Process &run : runs) {
        run.wait_for_output("holding");
        truth = truth + parse_calls(run.output());
    }
    check_calls(functions_wait_for_calls(exporter, "copies", counted_calls(truth)), truth,
                "copies");
    CHECK(exporter.times_attached_to(standin("libcalls.so.1")) == 1);
    CHECK(exporter.times_attached_to(directory / "libcalls.so.1") == 1);
    check_account_at_rest(exporter);
}

TEST_CASE("each function has its own threshold for slow calls, or none", "[kernel]") {
    require_bpf();
    const Exporter exporter(only_groups("auto") + R"(
    waits:
      libraries: ["libcalls.so*"]
      slow_threshold: 50ms
      functions:
        - calls_wait
        - {symbol: calls_wait_long, slow_threshold: 1h}
        - {name: "calls::wait", symbol: _ZN5calls4waitEl, slow_threshold: none}
)");
    const Process holder = functions_hold_library(exporter);
    const CallsTruth truth = run_functions_mix("slow");
    const CallsCount wait = truth.at("calls_wait");
    REQUIRE(wait.slow > 0);
    REQUIRE(truth.at("calls_wait_long").slow > 0);
    REQUIRE(truth.at("calls::wait").slow > 0);
    const Page page =
        functions_wait_for_calls(exporter, "slow",
                                 number(wait.entered + truth.at("calls_wait_long").entered +
                                        truth.at("calls::wait").entered));
    const std::string slow = "gpusnoop_function_slow_calls_total";
    CHECK(page.sum(slow, {{"comm", "slow"}, {"function", "calls_wait"}}) >= number(wait.slow));
    CHECK(page.sum(slow, {{"comm", "slow"}}) <= number(wait.slow_at_most));
    CHECK(page.sum(slow, {{"comm", "slow"}, {"function", "calls_wait_long"}}) == 0);
    CHECK(page.sum(slow, {{"comm", "slow"}, {"function", "calls::wait"}}) == 0);
}

TEST_CASE("functions are found by patterns, and one with two symbols is counted once", "[kernel]") {
    require_bpf();
    const Exporter exporter(only_groups("auto") + R"(
    found:
      libraries: ["libcalls.so*"]
      functions:
        - {name: created, symbol: _ZN5calls6ObjectC1El}
        - {name: also created, symbol: _ZN5calls6ObjectC2El}
        - "calls_*"
        - {name: recursions, symbol: "*7recurseEi"}
      exclude: ["calls_wait*"]
)");
    const Process holder = functions_hold_library(exporter);
    const CallsTruth truth = run_functions_mix("patterns");
    std::map<std::string, std::uint64_t> expected;
    std::uint64_t all = 0;
    for (const auto &[name, count] : truth) {
        if (name.starts_with("calls_") && !name.starts_with("calls_wait")) {
            expected[name] = count.entered;
            all += count.entered;
        }
    }
    expected["recursions"] = truth.at("calls::recurse").entered;
    const std::uint64_t created = truth.at("calls::Object::Object").entered;
    all += expected["recursions"] + created;
    const Page page = functions_wait_for_calls(exporter, "patterns", number(all));
    const auto calls = [&](const std::string &function) {
        return page.sum("gpusnoop_function_calls_total",
                        {{"comm", "patterns"}, {"function", function}});
    };
    for (const auto &[name, count] : expected) {
        CAPTURE(name);
        CHECK(calls(name) == number(count));
    }
    CHECK(calls("created") + calls("also created") == number(created));
    CHECK_FALSE(page.has("gpusnoop_function_calls_total", {{"function", "calls_wait"}}));
}
