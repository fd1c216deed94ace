// The configuration changes while programs run: what stays is counted to the last call, what comes
// is counted from then on, and what goes is not.
#include "tests/probes/functions/reload.h"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/harness/cuda_truth.h"
#include "tests/probes/functions/own_copy.h"

using namespace harness;

TEST_CASE("while threads call, functions come and go, and those that stay lose no call",
          "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    Exporter exporter(one(mode));
    Process loaded = start_calling("loaded", 8);
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    // From the first call on, as the process is older than the probes.
    Process counted = start_calling("counted", 8);
    eventually("calls to be counted", [&] {
        const Page page = exporter.scrape();
        return calls(page, "counted", "calls_plain") > 0 &&
               calls(page, "counted", "calls_find") > 0;
    });
    for (int i = 0; i < 3; i++) {
        reload(exporter, other_library(mode));
        eventually("what came to be counted",
                   [&, before = calls(exporter.scrape(), "counted", "calls_eight")] {
                       return calls(exporter.scrape(), "counted", "calls_eight") > before;
                   });
        reload_by_signal(exporter, one(mode));
        eventually("what came back to be counted",
                   [&, before = calls(exporter.scrape(), "counted", "calls_find")] {
                       return calls(exporter.scrape(), "counted", "calls_find") > before;
                   });
    }
    reload(exporter, other_library(mode));
    (void)exporter.scrape();
    const Page after = exporter.scrape();
    for (const std::string &name : in_other) {
        eventually(name + " to be counted", [&, before = calls(after, "counted", name)] {
            return calls(exporter.scrape(), "counted", name) > before;
        });
    }
    CHECK(exporter.scrape().sum("gpusnoop_probe_attached_functions", {{"probe", "functions"}}) ==
          8);

    const CallsTruth truth = stop(counted);
    stop(loaded);
    for (const std::string &name : stays) {
        CAPTURE(name);
        const Page page = exporter.wait_for(calls_total, {{"comm", "counted"}, {"function", name}},
                                            number(truth.at(name).returned));
        CHECK(page.sum("gpusnoop_function_duration_seconds_count",
                       {{"comm", "counted"}, {"function", name}}) ==
              number(truth.at(name).returned));
    }
    const Page last = exporter.scrape();
    for (const std::string &name : in_one) {
        CAPTURE(name);
        CHECK(calls(last, "counted", name) > 0);
        CHECK(calls(last, "counted", name) == calls(after, "counted", name));
        CHECK(calls(last, "counted", name) < number(truth.at(name).returned));
    }
    for (const std::string &name : in_other) {
        CAPTURE(name);
        CHECK(calls(last, "counted", name) <= number(truth.at(name).returned));
    }
    // What the threads had begun when its probes went is stale by now.
    check_account_at_rest(exporter);
    CHECK(exporter.log().find("level=ERROR") == std::string::npos);

    // A process of later is counted by the present configuration alone, to the call.
    std::set<std::string> present = stays;
    present.insert(in_other.begin(), in_other.end());
    Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    holder.wait_for_output("holding");
    const std::string unmatched = "gpusnoop_probe_unmatched_returns_total";
    const double before = exporter.scrape().sum(unmatched);
    check_counted(exporter, only(run_mix("later"), present), "later", in_one);
    // Calls of what is muted, or gone, have no ends either.
    CHECK(exporter.scrape().sum(unmatched) == before);
    reload(exporter, one(mode));
    present = stays;
    present.insert(in_one.begin(), in_one.end());
    check_counted(exporter, only(run_mix("latest"), present), "latest", in_other);
}

TEST_CASE("thresholds, buckets, errors and names change for calls that are counted on",
          "[kernel][beside]") {
    require_bpf();
    const OwnCopy copy;
    const auto config = [](const std::string &options) {
        return "series: {retention: 10s}\n" + only_groups("auto") +
               "    changes:\n      libraries: [" + OwnCopy::name + "]" + R"(
      functions:
        - calls_plain
        - )" + options +
               "\n";
    };
    Exporter exporter(config("{symbol: calls_wait, slow_threshold: 1h}"));
    const Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"},
                         copy.environment());
    exporter.wait_until_attached_to(copy.library());
    Process process = start_calling("changed", 2, copy.environment());
    const Labels of = {{"comm", "changed"}, {"function", "calls_wait"}};
    eventually("calls to be counted",
               [&] { return calls(exporter.scrape(), "changed", "calls_wait") > 0; });
    CHECK(exporter.scrape().sum("gpusnoop_function_slow_calls_total", of) == 0);
    reload(exporter, config("{symbol: calls_wait, slow_threshold: 1ns, buckets: [7ms, 1h]}"));
    eventually("a slow call",
               [&] { return exporter.scrape().sum("gpusnoop_function_slow_calls_total", of) > 0; });
    {
        const Page page = exporter.scrape();
        std::set<std::string> bounds;
        for (const Sample &sample : page.samples("gpusnoop_function_duration_seconds_bucket", of)) {
            CHECK(bounds.insert(sample.labels.at("le")).second);  // no series twice
        }
        CHECK(bounds == std::set<std::string>{"0.007", "3600", "+Inf"});
    }
    const double so_far = calls(exporter.scrape(), "changed", "calls_wait");
    reload(exporter, config("{symbol: calls_wait, name: renamed}"));
    eventually("calls under the new name",
               [&] { return calls(exporter.scrape(), "changed", "renamed") > 0; });
    const CallsTruth truth = stop(process);
    CHECK(calls(exporter.scrape(), "changed", "calls_wait") >= so_far);
    const double plain = number(truth.at("calls_plain").returned);
    // No call of it is lost between the names.
    eventually("all calls to be counted", [&] {
        const Page page = exporter.scrape();
        return calls(page, "changed", "calls_plain") == plain &&
               calls(page, "changed", "calls_wait") + calls(page, "changed", "renamed") ==
                   number(truth.at("calls_wait").returned);
    });
    eventually("the series of the old name to leave",
               [&] { return !exporter.scrape().has(calls_total, {{"function", "calls_wait"}}); });
}

TEST_CASE("functions are switched off and on, and libraries come into the configuration",
          "[kernel]") {
    require_bpf();
    Exporter exporter(only_groups("auto"));  // no group, so the library is of no interest
    const Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    holder.wait_for_output("holding");
    const auto attached = [&] {
        return exporter.scrape().sum("gpusnoop_probe_attached_functions", {{"probe", "functions"}});
    };
    CHECK(attached() == 0);
    reload(exporter, one("auto"));
    CHECK(attached() == 8);  // at once, as the process runs already
    CHECK(exporter.times_attached_to(standin("libcalls.so.1")) == 1);
    reload(exporter, "cuda: {enabled: false}\nfunctions: {enabled: false}\n");
    CHECK(attached() == 0);
    check_counted(exporter, {}, "off", in_one);
    CHECK_FALSE(exporter.scrape().has(calls_total));
    reload(exporter, one("auto"));
    CHECK(attached() == 8);
    std::set<std::string> present = stays;
    present.insert(in_one.begin(), in_one.end());
    check_counted(exporter, only(run_mix("on"), present), "on", in_other);
    // More than are allowed: nothing of the file is traced.
    std::string few = one("auto");
    few.insert(few.find("  groups:"), "  max_functions: 3\n");
    reload(exporter, few);
    CHECK(attached() == 0);
    CHECK(exporter.log().find("8 of its functions are wanted, of at most 3") != std::string::npos);
}
