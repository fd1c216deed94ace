// What the aggregator makes of a configuration that changes while it counts.
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using gpusnoop::probes::ErrorKind;

namespace {

series::LabelValues labels(const std::string &function) {
    return {"python", "", "", "", "libx.so.1", function};
}

// As the probe does it, when the ring is empty.
void change(FunctionsFixture &fixture, std::uint32_t number, std::optional<FunctionInfo> function,
            std::chrono::nanoseconds now = 1s) {
    fixture.table.change(
        {{.number = number,
          .function = function ? std::make_shared<const FunctionInfo>(*function) : nullptr}});
    if (const auto replaced = fixture.table.apply(fixture.table.queued())) {
        fixture.aggregator->refresh(*replaced, now);
    }
}

FunctionInfo as(std::string name, probes::FunctionOptions options) {
    return {"libx.so.1", "group", std::move(name), std::move(options)};
}

}  // namespace

TEST_CASE("calls are judged by the threshold of the present, and counted on") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    fixture.tell(call(f, 1'500));
    auto options = with_all;
    options.slow_threshold = 2'000ns;
    change(fixture, f, as("f", options));
    fixture.tell(call(f, 1'500));
    fixture.tell(call(f, 2'500));
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 3}});
    CHECK(fixture.page("function_slow_calls_total") == Page{{labels("f"), 2}});
    CHECK(fixture.histograms("function_duration_seconds") ==
          Histograms{{labels("f"), {0, 0, 3, 5'500}}});
}

TEST_CASE("a removed function is counted no more, and its series leave after the retention") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all);
    for (const auto number : {f, g}) {
        fixture.tell(call(number, 5'000, 3));
    }
    change(fixture, f, std::nullopt, 10s);
    fixture.tell(call(f, 5'000, 3));
    fixture.tell(call(g, 5'000, 3));
    fixture.tell(of(43, 5, call(f)));  // nor of a process that was not known
    CHECK(fixture.aggregator->undecodable() == 0);
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 1}, {labels("g"), 2}});
    fixture.aggregator->tidy(69s);
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 1}, {labels("g"), 2}});
    fixture.aggregator->tidy(70s);
    const auto g_error = series::LabelValues{"python", "", "", "", "libx.so.1", "g", "3"};
    CHECK(fixture.page("function_calls_total") == Page{{labels("g"), 2}});
    CHECK(fixture.page("function_errors_total") == Page{{g_error, 2}});
    CHECK(fixture.page("function_slow_calls_total") == Page{{labels("g"), 2}});
    CHECK(fixture.histograms("function_duration_seconds") ==
          Histograms{{labels("g"), {0, 0, 2, 10'000}}});
    fixture.tell(call(g, 5'000, 3));
    CHECK(fixture.page("function_calls_total") == Page{{labels("g"), 3}});
    CHECK(fixture.page("function_errors_total") == Page{{g_error, 3}});
}

TEST_CASE("a function that comes back in time is counted on") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    fixture.tell(call(f));
    change(fixture, f, std::nullopt, 10s);
    change(fixture, f, as("f", with_all), 20s);
    fixture.tell(call(f));
    fixture.aggregator->tidy(1'000s);
    fixture.tell(call(f));
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 3}});
    CHECK(fixture.histograms("function_duration_seconds").at(labels("f"))[1] == 3);
}

TEST_CASE("a function stays as long as one of its numbers counts for it") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto one = fixture.number("f", with_all);
    const auto other = fixture.number("f", with_all);
    fixture.tell(call(one));
    fixture.tell(call(other));
    change(fixture, one, std::nullopt, 10s);
    fixture.aggregator->tidy(1'000s);
    fixture.tell(call(one));
    fixture.tell(call(other));
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 3}});
}

TEST_CASE("a function under a new name begins at 0, and the old name leaves") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    fixture.tell(call(f));
    change(fixture, f, as("new", with_all), 10s);
    fixture.tell(call(f));
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 1}, {labels("new"), 1}});
    fixture.aggregator->tidy(70s);
    CHECK(fixture.page("function_calls_total") == Page{{labels("new"), 1}});
    fixture.tell(call(f));
    CHECK(fixture.page("function_calls_total") == Page{{labels("new"), 2}});
}

TEST_CASE("other buckets begin a new histogram, and there is never more than one") {
    FunctionsFixture fixture;
    fixture.tell(process());
    fixture.tell(of(43, 5, process("python")));  // of the same group
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all);
    for (const auto number : {f, g}) {
        fixture.tell(call(number));
        fixture.tell(of(43, 5, call(number)));
    }
    auto options = with_all;
    options.buckets = {7ns};
    change(fixture, f, as("f", options));
    CHECK(fixture.histograms("function_duration_seconds") ==
          Histograms{{labels("g"), {0, 2, 0, 2'000}}});
    fixture.tell(call(f));
    fixture.tell(of(43, 5, call(f)));
    fixture.tell(call(g));
    CHECK(fixture.histograms("function_duration_seconds") ==
          Histograms{{labels("f"), {0, 2, 2'000}}, {labels("g"), {0, 3, 0, 3'000}}});
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 4}, {labels("g"), 3}});
    CHECK(repeated_series(fixture.text()).empty());
    // And back.
    change(fixture, f, as("f", with_all));
    fixture.tell(call(f));
    CHECK(fixture.histograms("function_duration_seconds").at(labels("f")) ==
          std::vector<std::uint64_t>{0, 1, 0, 1'000});
    CHECK(repeated_series(fixture.text()).empty());
}

TEST_CASE("what a function does not show any more leaves, and the rest stays") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    fixture.tell(call(f, 5'000, 3));
    change(fixture, f, as("f", {.buckets = {100ns, 1'000ns}}), 10s);
    fixture.tell(call(f, 5'000, 3));
    fixture.aggregator->tidy(70s);
    fixture.tell(call(f, 5'000, 3));
    CHECK(fixture.page("function_errors_total").empty());
    CHECK(fixture.page("function_slow_calls_total").empty());
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 3}});
    CHECK(fixture.histograms("function_duration_seconds").at(labels("f")).back() == 15'000);
}

TEST_CASE("with the process as a label, functions are told apart as well") {
    FunctionsFixture fixture(2'000, true);
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all);
    fixture.tell(call(f));
    fixture.tell(call(g));
    change(fixture, f, std::nullopt, 10s);
    fixture.aggregator->tidy(70s);
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"python", "", "", "", "42", "libx.so.1", "g"}, 1}});
}

TEST_CASE("past the budget, what is removed makes room, and the sum of the others is right") {
    FunctionsFixture fixture(10);
    fixture.tell(process());
    std::vector<std::uint32_t> numbers;
    for (int i = 0; i < 30; i++) {
        numbers.push_back(fixture.number("f" + std::to_string(i), with_all));
    }
    for (const auto number : numbers) {
        fixture.tell(call(number));
    }
    CHECK(fixture.sum("function_calls_total") == 30);
    for (int i = 0; i < 25; i++) {
        change(fixture, numbers[static_cast<std::size_t>(i)], std::nullopt, 10s);
    }
    fixture.aggregator->tidy(70s);
    const auto before = fixture.sum("function_calls_total");
    for (const auto number : numbers) {
        fixture.tell(call(number));
    }
    CHECK(fixture.sum("function_calls_total") == before + 5);
    fixture.aggregator->tidy(80s);
    CHECK(fixture.sum("function_calls_total") == before + 5);
    CHECK(repeated_series(fixture.text()).empty());
}

TEST_CASE("a number that is given to another function counts for that") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    fixture.tell(call(f));
    fixture.table.change(
        {{.number = f, .function = nullptr, .is_released = true, .is_removed = false}});
    fixture.aggregator->refresh(*fixture.table.apply(fixture.table.queued()), 1s);
    const auto g = fixture.number("g", with_all);
    REQUIRE(g == f);
    fixture.tell(call(g));
    CHECK(fixture.page("function_calls_total") == Page{{labels("f"), 1}, {labels("g"), 1}});
}

TEST_CASE("what functions did is known whatever their numbers came to stand for") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all);
    for (int i = 0; i < 3; i++) {
        fixture.tell(call(f, 1'500, 7));
    }
    fixture.tell(call(g, 10));
    change(fixture, f, as("h", with_all));
    fixture.tell(call(f, 20));
    fixture.tell(call(g, 30));
    change(fixture, g, std::nullopt);
    const auto calls = [&] {
        std::map<std::string, std::uint64_t> by_name;
        for (const FunctionRow &row : rows_by_function(fixture.aggregator->snapshot(3s))) {
            by_name[row.function] = row.totals.calls;
        }
        return by_name;
    };
    const std::map<std::string, std::uint64_t> expected = {{"f", 3}, {"g", 2}, {"h", 1}};
    CHECK(calls() == expected);
    const FunctionsSnapshot snapshot = fixture.aggregator->snapshot(3s);
    const auto rows = rows_by_process(snapshot);
    REQUIRE(rows.size() == 3);
    CHECK(rows[0].process->pid == bench_pid);
    CHECK(rows[0].totals.errors == 3);
    CHECK(rows[0].totals.slow_calls == 3);

    fixture.tell(exit_at(4 * second_ns));
    fixture.aggregator->tidy(5s);
    CHECK(calls() == expected);
    CHECK(rows_by_process(fixture.aggregator->snapshot(6s)).empty());
}
