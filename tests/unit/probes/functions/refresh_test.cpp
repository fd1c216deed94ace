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
void change(FunctionsFixture &bench, std::uint32_t number, std::optional<FunctionInfo> function,
            std::chrono::nanoseconds now = 1s) {
    bench.table.change(
        {{.number = number,
          .function = function ? std::make_shared<const FunctionInfo>(*function) : nullptr}});
    if (const auto replaced = bench.table.apply(bench.table.queued())) {
        bench.aggregator->refresh(*replaced, now);
    }
}

FunctionInfo as(std::string name, probes::FunctionOptions options) {
    return {"libx.so.1", "group", std::move(name), std::move(options)};
}

}  // namespace

TEST_CASE("calls are judged by the threshold of the present, and counted on") {
    FunctionsFixture bench;
    bench.tell(process());
    const auto f = bench.number("f", with_all);
    bench.tell(call(f, 1'500));
    auto options = with_all;
    options.slow_threshold = 2'000ns;
    change(bench, f, as("f", options));
    bench.tell(call(f, 1'500));
    bench.tell(call(f, 2'500));
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 3}});
    CHECK(bench.page("function_slow_calls_total") == Page{{labels("f"), 2}});
    CHECK(bench.histograms("function_duration_seconds") ==
          Histograms{{labels("f"), {0, 0, 3, 5'500}}});
}

TEST_CASE("a removed function is counted no more, and its series leave after the retention") {
    FunctionsFixture bench;
    bench.tell(process());
    const auto f = bench.number("f", with_all);
    const auto g = bench.number("g", with_all);
    for (const auto number : {f, g}) {
        bench.tell(call(number, 5'000, 3));
    }
    change(bench, f, std::nullopt, 10s);
    bench.tell(call(f, 5'000, 3));
    bench.tell(call(g, 5'000, 3));
    bench.tell(of(43, 5, call(f)));  // nor of a process that was not known
    CHECK(bench.aggregator->undecodable() == 0);
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 1}, {labels("g"), 2}});
    bench.aggregator->tidy(69s);
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 1}, {labels("g"), 2}});
    bench.aggregator->tidy(70s);
    const auto g_error = series::LabelValues{"python", "", "", "", "libx.so.1", "g", "3"};
    CHECK(bench.page("function_calls_total") == Page{{labels("g"), 2}});
    CHECK(bench.page("function_errors_total") == Page{{g_error, 2}});
    CHECK(bench.page("function_slow_calls_total") == Page{{labels("g"), 2}});
    CHECK(bench.histograms("function_duration_seconds") ==
          Histograms{{labels("g"), {0, 0, 2, 10'000}}});
    bench.tell(call(g, 5'000, 3));
    CHECK(bench.page("function_calls_total") == Page{{labels("g"), 3}});
    CHECK(bench.page("function_errors_total") == Page{{g_error, 3}});
}

TEST_CASE("a function that comes back in time is counted on") {
    FunctionsFixture bench;
    bench.tell(process());
    const auto f = bench.number("f", with_all);
    bench.tell(call(f));
    change(bench, f, std::nullopt, 10s);
    change(bench, f, as("f", with_all), 20s);
    bench.tell(call(f));
    bench.aggregator->tidy(1'000s);
    bench.tell(call(f));
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 3}});
    CHECK(bench.histograms("function_duration_seconds").at(labels("f"))[1] == 3);
}

TEST_CASE("a function stays as long as one of its numbers counts for it") {
    FunctionsFixture bench;
    bench.tell(process());
    const auto one = bench.number("f", with_all);
    const auto other = bench.number("f", with_all);
    bench.tell(call(one));
    bench.tell(call(other));
    change(bench, one, std::nullopt, 10s);
    bench.aggregator->tidy(1'000s);
    bench.tell(call(one));
    bench.tell(call(other));
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 3}});
}

TEST_CASE("a function under a new name begins at 0, and the old name leaves") {
    FunctionsFixture bench;
    bench.tell(process());
    const auto f = bench.number("f", with_all);
    bench.tell(call(f));
    change(bench, f, as("new", with_all), 10s);
    bench.tell(call(f));
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 1}, {labels("new"), 1}});
    bench.aggregator->tidy(70s);
    CHECK(bench.page("function_calls_total") == Page{{labels("new"), 1}});
    bench.tell(call(f));
    CHECK(bench.page("function_calls_total") == Page{{labels("new"), 2}});
}

TEST_CASE("other buckets begin a new histogram, and there is never more than one") {
    FunctionsFixture bench;
    bench.tell(process());
    bench.tell(of(43, 5, process("python")));  // of the same group
    const auto f = bench.number("f", with_all);
    const auto g = bench.number("g", with_all);
    for (const auto number : {f, g}) {
        bench.tell(call(number));
        bench.tell(of(43, 5, call(number)));
    }
    auto options = with_all;
    options.buckets = {7ns};
    change(bench, f, as("f", options));
    CHECK(bench.histograms("function_duration_seconds") ==
          Histograms{{labels("g"), {0, 2, 0, 2'000}}});
    bench.tell(call(f));
    bench.tell(of(43, 5, call(f)));
    bench.tell(call(g));
    CHECK(bench.histograms("function_duration_seconds") ==
          Histograms{{labels("f"), {0, 2, 2'000}}, {labels("g"), {0, 3, 0, 3'000}}});
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 4}, {labels("g"), 3}});
    CHECK(repeated_series(bench.text()).empty());
    // And back.
    change(bench, f, as("f", with_all));
    bench.tell(call(f));
    CHECK(bench.histograms("function_duration_seconds").at(labels("f")) ==
          std::vector<std::uint64_t>{0, 1, 0, 1'000});
    CHECK(repeated_series(bench.text()).empty());
}

TEST_CASE("what a function does not show any more leaves, and the rest stays") {
    FunctionsFixture bench;
    bench.tell(process());
    const auto f = bench.number("f", with_all);
    bench.tell(call(f, 5'000, 3));
    change(bench, f, as("f", {.buckets = {100ns, 1'000ns}}), 10s);
    bench.tell(call(f, 5'000, 3));
    bench.aggregator->tidy(70s);
    bench.tell(call(f, 5'000, 3));
    CHECK(bench.page("function_errors_total").empty());
    CHECK(bench.page("function_slow_calls_total").empty());
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 3}});
    CHECK(bench.histograms("function_duration_seconds").at(labels("f")).back() == 15'000);
}

TEST_CASE("with the process as a label, functions are told apart as well") {
    FunctionsFixture bench(2'000, true);
    bench.tell(process());
    const auto f = bench.number("f", with_all);
    const auto g = bench.number("g", with_all);
    bench.tell(call(f));
    bench.tell(call(g));
    change(bench, f, std::nullopt, 10s);
    bench.aggregator->tidy(70s);
    CHECK(bench.page("function_calls_total") ==
          Page{{{"python", "", "", "", "42", "libx.so.1", "g"}, 1}});
}

TEST_CASE("past the budget, what is removed makes room, and the sum of the others is right") {
    FunctionsFixture bench(10);
    bench.tell(process());
    std::vector<std::uint32_t> numbers;
    for (int i = 0; i < 30; i++) {
        numbers.push_back(bench.number("f" + std::to_string(i), with_all));
    }
    for (const auto number : numbers) {
        bench.tell(call(number));
    }
    CHECK(bench.sum("function_calls_total") == 30);
    for (int i = 0; i < 25; i++) {
        change(bench, numbers[static_cast<std::size_t>(i)], std::nullopt, 10s);
    }
    bench.aggregator->tidy(70s);
    const auto before = bench.sum("function_calls_total");
    for (const auto number : numbers) {
        bench.tell(call(number));
    }
    CHECK(bench.sum("function_calls_total") == before + 5);
    bench.aggregator->tidy(80s);
    CHECK(bench.sum("function_calls_total") == before + 5);
    CHECK(repeated_series(bench.text()).empty());
}

TEST_CASE("a number that is given to another function counts for that") {
    FunctionsFixture bench;
    bench.tell(process());
    const auto f = bench.number("f", with_all);
    bench.tell(call(f));
    bench.table.change(
        {{.number = f, .function = nullptr, .is_released = true, .is_removed = false}});
    bench.aggregator->refresh(*bench.table.apply(bench.table.queued()), 1s);
    const auto g = bench.number("g", with_all);
    REQUIRE(g == f);
    bench.tell(call(g));
    CHECK(bench.page("function_calls_total") == Page{{labels("f"), 1}, {labels("g"), 1}});
}

TEST_CASE("what functions did is known whatever their numbers came to stand for") {
    FunctionsFixture bench;
    bench.tell(process());
    const auto f = bench.number("f", with_all);
    const auto g = bench.number("g", with_all);
    for (int i = 0; i < 3; i++) {
        bench.tell(call(f, 1'500, 7));
    }
    bench.tell(call(g, 10));
    change(bench, f, as("h", with_all));
    bench.tell(call(f, 20));
    bench.tell(call(g, 30));
    change(bench, g, std::nullopt);
    const auto calls = [&] {
        std::map<std::string, std::uint64_t> by_name;
        for (const FunctionRow &row : rows_by_function(bench.aggregator->snapshot(3s))) {
            by_name[row.function] = row.totals.calls;
        }
        return by_name;
    };
    const std::map<std::string, std::uint64_t> expected = {{"f", 3}, {"g", 2}, {"h", 1}};
    CHECK(calls() == expected);
    const FunctionsSnapshot snapshot = bench.aggregator->snapshot(3s);
    const auto rows = rows_by_process(snapshot);
    REQUIRE(rows.size() == 3);
    CHECK(rows[0].process->pid == bench_pid);
    CHECK(rows[0].totals.errors == 3);
    CHECK(rows[0].totals.slow_calls == 3);

    bench.tell(exit_at(4 * second_ns));
    bench.aggregator->tidy(5s);
    CHECK(calls() == expected);
    CHECK(rows_by_process(bench.aggregator->snapshot(6s)).empty());
}
