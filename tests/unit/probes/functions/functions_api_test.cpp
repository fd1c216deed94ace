#include "exporter/probes/functions/report/functions_api.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/version.h"
#include "exporter/probes/frame/api/list_page.h"
#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using gpusnoop::probes::ErrorKind;
using nlohmann::json;

namespace {

const probes::FunctionOptions slow_after_1us = {.slow_threshold = 1'000ns,
                                                .errors = ErrorKind::nonzero};
const FunctionsMoment since{100s, 10s};
const FunctionsMoment then{400s, 310s};

ApiPage functions_document_of(const FunctionsFixture &fixture,
                              std::chrono::nanoseconds now = then.monotonic) {
    return functions_page(fixture.aggregator->snapshot(now), since, {400s, now});
}

json parsed(const FunctionsFixture &fixture, const QueryParameters &query = {}) {
    return json::parse(functions_document_of(fixture).write(query).value().text);
}

std::vector<std::string> functions_api_names(const json &document) {
    std::vector<std::string> functions_api_names;
    for (const json &one : document["functions"]) {
        functions_api_names.push_back(one["function"]);
    }
    return functions_api_names;
}

std::string functions_api_error_of(const QueryParameters &query) {
    const FunctionsFixture fixture;
    const auto written = functions_document_of(fixture).write(query);
    return written ? "" : written.error().message;
}

// Three functions, each of which is first in an order of its own.
void call_three(FunctionsFixture &fixture) {
    const auto often = fixture.number("often", slow_after_1us);
    const auto slow = fixture.number("slow", slow_after_1us);
    const auto fails = fixture.number("fails", slow_after_1us);
    for (int i = 0; i < 5; i++) {
        fixture.tell(call(often, 10, 0, 290 * second_ns));
    }
    fixture.tell(call(slow, 9'000, 0, 290 * second_ns));
    fixture.tell(call(slow, 9'000, 0, 290 * second_ns));
    fixture.tell(call(fails, 500, 1, 290 * second_ns));
}

}  // namespace

TEST_CASE("functions as JSON") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f", slow_after_1us);
    const auto begun = fixture.number("begun", {.entry_only = true}, "liba.so");
    fixture.tell(process());
    fixture.tell(call(f, 300, 0, 290 * second_ns));  // in the minute before
    fixture.tell(call(f, 3'000, 5, 290 * second_ns));
    fixture.tell(call(f, 100'000, 0, 305 * second_ns));  // in this one
    fixture.tell(entry(begun));
    const auto written = functions_document_of(fixture).write({}).value();
    CHECK(written.content_type == "application/json");
    const std::string bounds = json(call_bounds_in_seconds()).dump();
    CHECK(written.text ==
          R"({"version":")" + std::string(version()) +
              R"(","time_seconds":400.0,"since_seconds":100.0,)"
              R"("elapsed_seconds":300.0,"processes":1,"bucket_bounds_seconds":)" +
              bounds +
              R"(,"functions":[{"library":"libx.so.1","function":"f","calls":3,"errors":1,)"
              R"("slow_calls":2,"seconds":0.0001033,"min_seconds":3e-07,"max_seconds":3e-06,)"
              R"("longest_seconds":0.0001,"buckets":[[1,1],[7,1],[18,1]]},)"
              R"({"library":"liba.so","function":"begun","calls":1,"errors":null,)"
              R"("slow_calls":null,"seconds":null,"min_seconds":null,"max_seconds":null,)"
              R"("longest_seconds":null,"buckets":[]}],"left_out":0,)"
              R"("truncated":false})"
              "\n");
}

TEST_CASE("functions are summed over processes, and those that have ended stay in the sum") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f", slow_after_1us);
    const auto other_group = fixture.number("f", {}, "libx.so.1", "other");
    fixture.tell(call(f, 300));
    fixture.tell(of(43, 5, call(f, 2'000, 1)));
    fixture.tell(of(44, 6, call(other_group, 7'000)));
    const json before = parsed(fixture);
    REQUIRE(before["functions"].size() == 1);
    CHECK(before["functions"][0]["calls"] == 3);
    CHECK(before["functions"][0]["errors"] == 1);
    CHECK(before["processes"] == 3);
    fixture.tell(of(43, 5, exit_at(3'000)));
    CHECK(parsed(fixture)["functions"] == before["functions"]);
    CHECK(parsed(fixture)["processes"] == 2);
    fixture.aggregator->tidy(1h);
    CHECK(parsed(fixture)["functions"] == before["functions"]);
    fixture.tell(of(42, bench_since, exit_at(3'000)));
    fixture.tell(of(44, 6, exit_at(3'000)));
    fixture.aggregator->tidy(2h);
    fixture.aggregator->tidy(3h);  // long after the families have forgotten them
    CHECK(fixture.page("function_calls_total").empty());
    CHECK(parsed(fixture)["functions"] == before["functions"]);
    CHECK(parsed(fixture)["processes"] == 0);
}

TEST_CASE("functions past a family's budget are not folded") {
    FunctionsFixture fixture(1);
    for (const char *name : {"a", "b", "c"}) {
        fixture.tell(call(fixture.number(name)));
    }
    CHECK(functions_api_names(parsed(fixture)) == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("functions by process are of those that run") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f", slow_after_1us);
    fixture.tell(process("python"));
    fixture.tell(call(f, 300));
    fixture.tell(of(43, 5, process("other")));
    fixture.tell(of(43, 5, call(f, 2'000, 1)));
    fixture.tell(of(43, 5, call(f, 2'000, 1)));
    const json both = parsed(fixture, {{"by", "process"}})["functions"];
    REQUIRE(both.size() == 2);
    CHECK(both[0]["pid"] == 43);
    CHECK(both[0]["comm"] == "other");
    CHECK(both[0]["script"] == "");
    CHECK(both[0]["container_id"] == "");
    CHECK(both[0]["slurm_job_id"] == "");
    CHECK(both[0]["user"] == "");
    CHECK(both[0]["calls"] == 2);
    CHECK(both[0]["errors"] == 2);
    CHECK(both[1]["pid"] == 42);
    CHECK(both[1]["errors"] == 0);
    fixture.tell(of(43, 5, exit_at(3'000)));
    CHECK(parsed(fixture, {{"by", "process"}})["functions"].size() == 1);
    CHECK(parsed(fixture, {{"by", "process"}, {"pid", "42"}})["functions"].size() == 1);
    CHECK(parsed(fixture, {{"by", "process"}, {"pid", "43"}})["functions"].empty());
    CHECK(parsed(fixture, {{"by", "function"}})["functions"][0]["calls"] == 3);
}

TEST_CASE("functions in the order that is asked for, as many as are asked for") {
    FunctionsFixture fixture;
    call_three(fixture);
    CHECK(functions_api_names(parsed(fixture)).front() == "often");
    CHECK(functions_api_names(parsed(fixture, {{"sort", "calls"}})).front() == "often");
    CHECK(functions_api_names(parsed(fixture, {{"sort", "seconds"}})).front() == "slow");
    CHECK(functions_api_names(parsed(fixture, {{"sort", "slow"}})).front() == "slow");
    CHECK(functions_api_names(parsed(fixture, {{"sort", "errors"}})).front() == "fails");
    CHECK(functions_api_names(parsed(fixture, {{"sort", "max"}})) ==
          std::vector<std::string>{"slow", "fails", "often"});
    // Of the same rank, by name.
    CHECK(functions_api_names(parsed(fixture, {{"sort", "slow"}})) ==
          std::vector<std::string>{"slow", "fails", "often"});
    const json two = parsed(fixture, {{"limit", "2"}, {"sort", "max"}});
    CHECK(functions_api_names(two) == std::vector<std::string>{"slow", "fails"});
    CHECK(two["left_out"] == 1);
    CHECK(two["truncated"] == true);
    CHECK(parsed(fixture, {{"limit", "0"}})["left_out"] == 3);
    CHECK(functions_api_names(parsed(fixture, {{"function", "*e*"}})) ==
          std::vector<std::string>{"often"});
    CHECK(functions_api_names(parsed(fixture, {{"function", "slow"}})) ==
          std::vector<std::string>{"slow"});
    CHECK(parsed(fixture, {{"library", "*.so.9"}})["functions"].empty());
    const json none = parsed(fixture, {{"function", "nothing*"}});
    CHECK(none["functions"].empty());
    CHECK(none["left_out"] == 0);
}

TEST_CASE("a wrong parameter of functions is told in a sentence") {
    CHECK(functions_api_error_of({{"sort", "name"}}) ==
          "sort must be calls, seconds, slow, errors or max, not \"name\"");
    for (const std::string limit : {"", "-1", "1x", "4294967296", " 1"}) {
        CHECK(functions_api_error_of({{"limit", limit}}) ==
              "limit must be a number from 0 to 4294967295, not \"" + limit + "\"");
    }
    // The numbers of all processes are not taken for those of one.
    for (const auto &[name, value] :
         {std::pair("pid", "42"), {"comm", "python3"}, {"script", "*"}}) {
        CHECK(functions_api_error_of({{name, value}}) ==
              "pid, comm and script need by=process: without it, a function's numbers are those of "
              "all processes");
    }
    CHECK(functions_api_error_of({{"by", "pid"}}) == "by must be function or process, not \"pid\"");
    CHECK(functions_api_error_of({{"sorted", "calls"}}) ==
          "\"sorted\" is not a parameter of this page; it has sort, by, function, library, pid, "
          "comm, script and limit");
    const std::string glob =
        "function must be a name or a glob of 1 to 256 bytes with at most 8 *, not ";
    CHECK(functions_api_error_of({{"function", ""}}) == glob + "\"\"");
    CHECK(functions_api_error_of({{"function", "*a*a*a*a*a*a*a*a*"}}) ==
          glob + "\"*a*a*a*a*a*a*a*a*\"");
    CHECK(functions_api_error_of({{"function", std::string(257, 'a')}}) ==
          glob + '"' + std::string(64, 'a') + "...\"");
    CHECK(functions_api_error_of({{"function", "\xFF"}}) == glob + "\"\xEF\xBF\xBD\"");
    CHECK(functions_api_error_of({{"\x1b[2J", ""}})
              .starts_with("\"\xEF\xBF\xBD[2J\" is not a parameter"));
}

TEST_CASE("functions that do not fit are left out and counted", "[bulk]") {
    FunctionsFixture fixture;
    constexpr int functions = 60'000;
    for (int i = 0; i < functions; i++) {
        fixture.tell(call(fixture.number("f" + std::to_string(i) + std::string(100, '"'))));
    }
    const auto written = functions_document_of(fixture).write({}).value();
    CHECK(written.text.size() <= max_list_page_bytes);
    const json document = json::parse(written.text);
    const std::size_t shown = document["functions"].size();
    CHECK(shown > functions / 4);
    CHECK(document["left_out"] == functions - shown);
    CHECK(document["truncated"] == true);
}

TEST_CASE("the extremes of processes are those of the function, minute by minute") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f");
    fixture.tell(call(f, 700, 0, 60 * second_ns));
    fixture.tell(of(43, 5, call(f, 20, 0, 61 * second_ns)));
    fixture.tell(of(44, 5, call(f, 9'000, 0, 119 * second_ns)));
    fixture.tell(of(44, 5, call(f, 1, 0, 120 * second_ns)));  // of the next minute
    fixture.tell(of(43, 5, exit_at(119 * second_ns)));
    fixture.aggregator->tidy(119s);
    const auto row = [&](std::chrono::nanoseconds now) {
        return json::parse(
            functions_document_of(fixture, now).write({}).value().text)["functions"][0];
    };
    CHECK(row(125s)["min_seconds"] == 20e-9);
    CHECK(row(125s)["max_seconds"] == 9e-6);
    CHECK(row(185s)["max_seconds"] == 1e-9);
    CHECK(row(250s)["min_seconds"] == nullptr);
    CHECK(row(250s)["longest_seconds"] == 9e-6);
}
