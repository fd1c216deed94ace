// What tests of a changing configuration share: two configurations, programs that call until they
// are stopped, and how a reload is asked for.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <set>
#include <string>

#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"

namespace harness {

inline const std::string calls_total = "gpusnoop_function_calls_total";
inline const std::string successful = "gpusnoop_config_last_reload_successful";
inline const std::string timestamp = "gpusnoop_config_last_reload_success_timestamp_seconds";

// In both configurations: followed by return probes, and by exits.
inline constexpr const char *staying = R"(
    stays:
      libraries: ["libcalls.so*"]
      functions:
        - calls_plain
        - {symbol: calls_status, errors: nonzero}
        - {symbol: calls_wait, slow_threshold: 50ms}
        - {name: "calls::choose", symbol: _ZN5calls6chooseEjl}
)";
inline const std::set<std::string> stays = {"calls_plain", "calls_status", "calls_wait",
                                            "calls::choose", "calls_inner"};

// One function stays in a group from which another goes, and a whole group goes.
inline std::string one(const std::string &mode) {
    return only_groups(mode) + staying + R"(
    mixed: {libraries: ["libcalls.so*"], functions: [calls_inner, calls_outer]}
    goes: {libraries: ["libcalls.so*"], functions: [calls_find, _ZN5calls5plainEl]}
)";
}
inline const std::set<std::string> in_one = {"calls_outer", "calls_find", "calls::plain"};

inline std::string other_library(const std::string &mode) {
    return only_groups(mode) + staying + R"(
    mixed: {libraries: ["libcalls.so*"], functions: [calls_inner, calls_recurse]}
    comes: {libraries: ["libcalls.so*"], functions: [calls_eight, _ZNK5calls6Square4areaEv]}
)";
}
inline const std::set<std::string> in_other = {"calls_recurse", "calls_eight",
                                               "calls::Square::area"};

inline Process start_calling(const std::string &comm, unsigned threads,
                             const Process::Environment &environment = {}) {
    return Process(
        {standin("calls"), "--until-stopped", "--name", comm, "--threads", std::to_string(threads)},
        environment);
}

inline CallsTruth stop(Process &process) {
    process.signal(SIGTERM);
    REQUIRE(process.wait() == 0);
    return parse_calls(process.output());
}

inline CallsTruth run_mix(const std::string &comm, const Process::Environment &environment = {}) {
    const Finished finished =
        run({standin("calls"), "--name", comm, "--threads", "4"}, environment);
    REQUIRE(finished.code == 0);
    return parse_calls(finished.output);
}

inline CallsTruth only(const CallsTruth &truth, const std::set<std::string> &names) {
    CallsTruth some;
    for (const std::string &name : names) {
        some[name] = truth.at(name);
    }
    return some;
}

inline HttpAnswer post_reload(const Exporter &exporter) {
    return http(exporter.port(), "/-/reload", "POST", "Content-Length: 0\r\n");
}

inline void reload(const Exporter &exporter, const std::string &config) {
    exporter.configure(config);
    const HttpAnswer answer = post_reload(exporter);
    INFO(answer.body);
    INFO(exporter.log());
    REQUIRE(answer.status == 200);
}

inline void reload_by_signal(Exporter &exporter, const std::string &config) {
    const std::string line = "msg=\"configuration reloaded\"";
    const std::size_t before = count(exporter.log(), line);
    exporter.configure(config);
    exporter.process().signal(SIGHUP);
    eventually("the reload: " + exporter.log(),
               [&] { return count(exporter.log(), line) > before; });
}

inline double calls(const Page &page, const std::string &comm, const std::string &function) {
    return page.sum(calls_total, {{"comm", comm}, {"function", function}});
}

// The functions of the truth are counted as they were called, those of `others` not at all.
inline void check_counted(const Exporter &exporter, const CallsTruth &truth,
                          const std::string &comm, const std::set<std::string> &others) {
    // Only calls_wait and calls_status have what the library has of each function.
    CallsConfig config;
    config.slow_threshold = "";
    double all = 0;
    for (const auto &[name, count] : truth) {
        all += number(count.returned);
    }
    const Page page = exporter.wait_for(calls_total, {{"comm", comm}}, all);
    for (const auto &[name, count] : truth) {
        INFO("function " << name);
        const Labels of = {{"comm", comm}, {"function", name}};
        CHECK(calls(page, comm, name) == number(count.returned));
        CHECK(page.sum("gpusnoop_function_duration_seconds_count", of) == number(count.returned));
        if (name == "calls_status") {
            std::uint64_t errors = 0;
            for (const auto &[code, times] : count.errors) {
                errors += times;
            }
            CHECK(page.sum("gpusnoop_function_errors_total", of) == number(errors));
        }
        if (name == "calls_wait") {
            const double slow = page.sum("gpusnoop_function_slow_calls_total", of);
            CHECK(slow >= number(count.slow));
            CHECK(slow <= number(count.slow_at_most));
        }
    }
    for (const std::string &name : others) {
        INFO("function " << name);
        CHECK_FALSE(page.has(calls_total, {{"comm", comm}, {"function", name}}));
    }
}

}  // namespace harness
