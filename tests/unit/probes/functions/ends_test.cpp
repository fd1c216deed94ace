// What is known of a process when it has ended.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>

#include "exporter/probes/functions/count/aggregator.h"
#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("the slow calls of a process are handed over when it has ended") {
    std::map<std::uint32_t, std::uint64_t> slow;
    FunctionsSettings settings{.budget = [](std::string_view) { return 100U; }, .retention = 1min};
    settings.on_end = [&](const ProcessKey &process, std::uint64_t calls) {
        slow[process.tgid] += calls;
    };
    FunctionsFixture fixture(settings);
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all, "liby.so");
    fixture.tell(process());
    fixture.tell(of(43, 5, process("other program")));
    for (const std::uint64_t duration : {999, 1'000, 1'001}) {
        fixture.tell(call(f, duration));
    }
    fixture.tell(call(g, 9'000));
    fixture.tell(of(43, 5, call(g, 1)));
    fixture.aggregator->tidy(1s);
    CHECK(slow.empty());
    fixture.tell(exit_at(2 * second_ns));
    fixture.tell(of(43, 5, exit_at(2 * second_ns)));
    fixture.aggregator->tidy(3s);
    fixture.aggregator->tidy(4s);
    CHECK(slow == std::map<std::uint32_t, std::uint64_t>{{bench_pid, 3}});
    CHECK(fixture.sum("function_slow_calls_total") == 3);
}
