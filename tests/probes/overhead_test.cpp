// What the exporter says that it costs a process: the calls that the process made, times what the
// exporter says that one costs. Whether that is the time which a process loses is in
// bench/training_step.py, as no test measures time.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

constexpr const char *family = "gpusnoop_overhead_seconds_total";

double cost(const Page &page, const std::string &mode, const std::string &part) {
    const Labels labels = {{"mode", mode}, {"part", part}};
    REQUIRE(page.has("gpusnoop_probe_cost_seconds", labels));
    return page.sum("gpusnoop_probe_cost_seconds", labels);
}

Page wait_for_costs(const Exporter &exporter, const std::string &mode) {
    eventually("the cost of a probe to be measured", [&] {
        return exporter.scrape().has("gpusnoop_probe_cost_seconds", {{"mode", mode}});
    });
    return exporter.scrape();
}

// Makes `iterations` rounds of calls in each of two threads, and ends. Returns how often it called
// calls_plain().
double call_plain(const std::string &comm, const std::string &iterations) {
    const Finished finished = run({standin("calls"), "--scenario", "mix", "--name", comm,
                                   "--threads", "2", "--iterations", iterations});
    REQUIRE(finished.code == 0);
    return number(parse_calls(finished.output).at("calls_plain").entered);
}

Page overhead_wait_for_calls(const Exporter &exporter, const std::string &comm, double calls) {
    return exporter.wait_for("gpusnoop_function_calls_total", {{"comm", comm}}, calls);
}

}  // namespace

TEST_CASE("what named functions cost a process is its calls times the cost of one",
          "[kernel][core][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const bool entry_only = GENERATE(false, true);
    CAPTURE(mode, entry_only);
    const Exporter exporter("cuda: {enabled: false}\nfunctions:\n  attach: " + mode +
                            "\n  groups:\n    plain:\n      libraries: [\"libcalls.so*\"]\n" +
                            (entry_only ? "      entry_only: true\n" : "") +
                            "      functions: [calls_plain]\n");
    const Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    const Page before = wait_for_costs(exporter, mode);
    // Which one it is, the compiler decides: both are the same for all calls.
    const double entry = cost(before, mode, "entry");
    const double stepped = cost(before, mode, "stepped_entry");
    const double rest =
        cost(before, mode, "record") + (entry_only ? 0 : cost(before, mode, "return"));
    CHECK(entry > 0);
    CHECK(stepped > 0);
    CHECK(rest > 0);

    const double few = call_plain("few", "500");
    const double many = call_plain("many", "1500");
    REQUIRE(few > 0);
    REQUIRE(many > few);
    (void)overhead_wait_for_calls(exporter, "few", few);
    (void)overhead_wait_for_calls(exporter, "many", many);
    // The end of a process has its own record.
    eventually("all of the cost to be on the page", [&] {
        const Page page = exporter.scrape();
        const auto is = [&](const std::string &comm, double calls, double one) {
            const double shown = page.sum(family, {{"comm", comm}, {"probe", "functions"}});
            return std::abs(shown - calls * one) < calls * 1e-12;
        };
        return (is("few", few, entry + rest) && is("many", many, entry + rest)) ||
               (is("few", few, stepped + rest) && is("many", many, stepped + rest));
    });
    CHECK_FALSE(exporter.scrape().has(family, {{"comm", "holder"}}));  // it called nothing
}

TEST_CASE("what CUDA calls cost a process is the runs of the programs times what one costs",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(without_company(attached_by(mode)));
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const Page page = wait_for_costs(exporter, mode);
    const auto calls = [&](const std::string &which) {
        return exporter.scrape().sum("gpusnoop_probe_" + which + "_total", {{"probe", "cuda"}});
    };
    const double entered_before = calls("entries");
    const double nested_before = calls("nested_calls");
    const TemporaryDirectory counts;
    REQUIRE(run({standin("workload"), "--iterations", "500", "--threads", "2", "--name", "traced"},
                {{"STANDIN_TRUTH_DIR", counts.path().string()}})
                .code == 0);
    const double entered = calls("entries") - entered_before;
    const double nested = calls("nested_calls") - nested_before;
    REQUIRE(entered > 1000);
    CAPTURE(entered, nested);
    // In nanoseconds: a whole number.
    const auto of = [&](const std::string &part) { return cost(page, mode, part) * 1e9; };
    const double returns = mode == "session" ? entered : entered + nested;
    const double stacks = number(truth_of(counts.path(), "traced").entered.at("cudaMalloc"));
    const double least = (entered + nested) * of("entry") + returns * of("return") +
                         entered * of("record") + stacks * of("stack");
    // How many of the entries are stepped, the compiler decides: some whole number.
    const double one_step = of("stepped_entry") - of("entry");
    eventually("all of the cost to be on the page", [&] {
        const double shown = exporter.scrape().sum(family, {{"comm", "traced"}, {"probe", "cuda"}});
        const double rest = shown * 1e9 - least;
        const double steps = std::round(rest / std::max(1.0, std::abs(one_step)));
        return std::abs(rest - steps * std::abs(one_step)) < 0.5 && steps >= 0 &&
               steps <= entered + nested;
    });
}
