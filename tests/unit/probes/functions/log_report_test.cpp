#include "exporter/probes/functions/report/log_report.h"
#include "exporter/probes/frame/registry.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/probes/functions/settings.h"
#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using gpusnoop::probes::ErrorKind;
using nlohmann::json;

namespace {

const probes::FunctionOptions logged_after_1ms = {.slow_threshold = 1ms,
                                                  .errors = ErrorKind::nonzero};

std::vector<std::string> log_report_names(const std::vector<LogReport::Row> &rows) {
    std::vector<std::string> log_report_names;
    for (const LogReport::Row &row : rows) {
        log_report_names.push_back(row.function);
    }
    return log_report_names;
}

std::string report_problems(const std::string &report) {
    const auto parsed = config::parse("functions:\n  report:\n    " + report + "\n", "c.yaml",
                                      probes::setting_blocks());
    return parsed ? "" : parsed.error().message;
}

// What the report writes to the log in this format, line by line.
std::vector<std::string> logged(const LogReport::Rows &report, log::Format format) {
    std::FILE *file = std::tmpfile();
    REQUIRE(file != nullptr);
    log::setup(log::Level::info, format, file);
    write_to_log(report);
    log::setup(log::Level::info, log::Format::logfmt);
    std::rewind(file);
    std::string text;
    std::array<char, 4096> piece{};
    while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), file)) {
        text.append(piece.data(), got);
    }
    std::fclose(file);
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

}  // namespace

TEST_CASE("a report is due after its interval, and never without one") {
    CHECK_FALSE(LogReport({.interval = 0ms}, 0s).is_due(100h));
    LogReport report({.interval = 10s}, 5s);
    CHECK_FALSE(report.is_due(14'999ms));
    CHECK(report.is_due(15s));
    CHECK_FALSE(report.make(FunctionsFixture().aggregator->snapshot(20s)));
    CHECK_FALSE(report.is_due(29s));
    CHECK(report.is_due(30s));
}

TEST_CASE("a report has what was done since the one before, the most first") {
    FunctionsFixture fixture;
    const auto often = fixture.number("often", logged_after_1ms);
    const auto slow = fixture.number("slow", logged_after_1ms);
    const auto begun = fixture.number("begun", {.entry_only = true});
    LogReport report({.interval = 10s, .rows = 2}, 0s);
    for (int i = 0; i < 30; i++) {
        fixture.tell(call(often, 1'000, i < 5 ? 7 : 0));
    }
    fixture.tell(call(slow, 2'000'000));
    fixture.tell(call(slow, 4'000'000));
    for (int i = 0; i < 3; i++) {
        fixture.tell(entry(begun));
    }
    const auto first = report.make(fixture.aggregator->snapshot(10s));
    REQUIRE(first);
    CHECK(first->seconds == 10);
    CHECK(first->functions == 3);
    CHECK(first->calls == 35);
    CHECK(log_report_names(first->busiest) == std::vector<std::string>{"often", "begun"});
    CHECK(log_report_names(first->slowest) == std::vector<std::string>{"slow", "often"});
    CHECK(first->busiest[0].calls == 30);
    CHECK(first->busiest[0].rates.calls == 3);
    CHECK(first->busiest[0].rates.errors == 0.5);
    CHECK(first->slowest[0].slow_calls == 2);
    CHECK_THAT(first->slowest[0].rates.mean.value(), WithinRel(0.003, 1e-9));
    CHECK_THAT(first->slowest[0].rates.max.value(), WithinRel(0.004, 1e-9));

    // Nothing happened, but that a process ended.
    fixture.tell(exit_at(3'000));
    fixture.aggregator->tidy(11s);
    CHECK_FALSE(report.make(fixture.aggregator->snapshot(20s)));

    fixture.tell(of(43, 5, call(slow, 50'000)));
    const auto third = report.make(fixture.aggregator->snapshot(30s));
    REQUIRE(third);
    CHECK(log_report_names(third->busiest) == std::vector<std::string>{"slow"});
    CHECK(third->busiest[0].calls == 1);
    CHECK(third->busiest[0].rates.calls == 0.1);
    CHECK(third->busiest[0].slow_calls == 0);
}

TEST_CASE("a report is a record for each row, in both formats of the log") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f \"\x1b[31m\xC2\x9B", logged_after_1ms);
    const auto begun = fixture.number("begun", {.entry_only = true});
    for (int i = 0; i < 3; i++) {
        fixture.tell(call(f, 1'234'567, 1));
    }
    fixture.tell(entry(begun));
    LogReport report({.interval = 10s}, 0s);
    const auto rows = report.make(fixture.aggregator->snapshot(9s)).value();
    const auto lines = logged(rows, log::Format::logfmt);
    REQUIRE(lines.size() == 4);
    CHECK_THAT(lines[0], ContainsSubstring("level=INFO msg=\"functions since the last report\" "
                                           "probe=functions seconds=9 functions=2 calls=4"));
    CHECK_THAT(lines[1],
               ContainsSubstring("msg=\"busiest function\" library=libx.so.1 "
                                 "function=\"f \\\"\\u001b[31m\\u009b\" calls=3 "
                                 "calls_per_second=0.3333 errors_per_second=0.3333 slow_calls=3 "
                                 "mean_seconds=0.001235 p50_seconds="));
    CHECK_THAT(lines[1], ContainsSubstring(" max_seconds=0.001235"));
    CHECK(
        lines[2].ends_with("msg=\"busiest function\" library=libx.so.1 function=begun calls=1 "
                           "calls_per_second=0.1111"));
    CHECK_THAT(lines[3], ContainsSubstring("msg=\"slowest function\" library=libx.so.1"));

    const auto objects = logged(rows, log::Format::json);
    REQUIRE(objects.size() == 4);
    const json row = json::parse(objects[1]);
    CHECK(row["msg"] == "busiest function");
    CHECK(row["function"] == "f \"\x1b[31m\xC2\x9B");
    CHECK(row["calls"] == 3);
    CHECK(row["mean_seconds"] == 0.001235);
    CHECK(row["p99_seconds"].is_number());
    CHECK_FALSE(json::parse(objects[2]).contains("mean_seconds"));
    CHECK_FALSE(json::parse(objects[2]).contains("slow_calls"));
}

TEST_CASE("the block `report` is read strictly") {
    const auto parsed = config::parse("functions: {report: {interval: 1m, rows: 3}}", "c.yaml",
                                      probes::setting_blocks())
                            .value();
    CHECK(parsed.of<FunctionsConfig>().report.interval == 1min);
    CHECK(parsed.of<FunctionsConfig>().report.rows == 3);
    CHECK(FunctionsConfig{}.report.interval == 0ms);
    CHECK(report_problems("interval: 0s").empty());
    CHECK(report_problems("interval: 24h").empty());
    CHECK(report_problems("interval: 500ms") ==
          "c.yaml:3:15: functions.report.interval: must be 0s, which is none, or 1s to 24h, is "
          "500ms");
    CHECK(report_problems("interval: 25h") ==
          "c.yaml:3:15: functions.report.interval: must be between 0ms and 24h, is 25h");
    CHECK(report_problems("interval: soon") ==
          "c.yaml:3:15: functions.report.interval: expected a duration such as 500ms, 10s, 5m or "
          "1h, got \"soon\"");
    CHECK(report_problems("rows: 0") ==
          "c.yaml:3:11: functions.report.rows: must be between 1 and 1000, is 0");
    CHECK_THAT(report_problems("every: 1m"),
               ContainsSubstring("c.yaml:3:5: functions.report.every: "
                                 "unknown key"));
}
