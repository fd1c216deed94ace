// Which processes share their series, and how long these stay.
#include "exporter/probes/frame/processes/process_table.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

using ProcessTableKeys = std::vector<ProcessKey>;
using Owners = std::vector<series::Owner>;

}  // namespace

TEST_CASE("processes with the same labels are one group") {
    ProcessGroups groups;
    const auto owner = groups.join({"python", ""});
    CHECK(owner != 0);
    CHECK(groups.join({"python", ""}) == owner);
    const auto other = groups.join({"python", "container"});
    CHECK(other != 0);
    CHECK(other != owner);
    CHECK(groups.expire(1h, 1min).empty());

    groups.leave({"python", ""}, 10s);
    CHECK(groups.expire(1h, 1min).empty());
    groups.leave({"python", ""}, 20s);
    CHECK(groups.expire(20s + 1min - 1ns, 1min).empty());
    CHECK(groups.expire(20s + 1min, 1min) == Owners{owner});
    const auto again = groups.join({"python", ""});
    CHECK(again != owner);
    CHECK(again != other);
}

TEST_CASE("a group that somebody joins in time stays") {
    ProcessGroups groups;
    const auto owner = groups.join({"python", ""});
    groups.leave({"python", ""}, 10s);
    CHECK(groups.join({"python", ""}) == owner);
    CHECK(groups.expire(1h, 1min).empty());
    groups.leave({"python", ""}, 2h);
    CHECK(groups.expire(2h + 59s, 1min).empty());
    CHECK(groups.expire(2h + 1min, 1min) == Owners{owner});
}

TEST_CASE("a group is idle since its last process ended, whichever is told last") {
    ProcessGroups groups;
    const auto owner = groups.join({"python", ""});
    CHECK(groups.join({"python", ""}) == owner);
    groups.leave({"python", ""}, 20s);
    groups.leave({"python", ""}, 10s);
    CHECK(groups.expire(20s + 1min - 1ns, 1min).empty());
    CHECK(groups.expire(20s + 1min, 1min) == Owners{owner});
}

TEST_CASE("calls whose process is told late, or never, are counted") {
    FunctionsFixture fixture;
    fixture.proc[42] = "by /proc";
    const auto f = fixture.number("f");
    fixture.tell(call(f));
    fixture.tell(process("by record"));  // what has been counted stays together
    fixture.tell(call(f));
    fixture.tell(of(43, 5, call(f)));  // /proc does not know it either
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"by /proc", "", "", "", "libx.so.1", "f"}, 2},
               {{"unknown", "", "", "", "libx.so.1", "f"}, 1}});
    CHECK(fixture.looked_up == ProcessTableKeys{{42, 1'000}, {43, 5}});

    auto record = of(44, 6, process("by record"));
    record.identity.start_boottime_ns = 99;
    fixture.proc[44] = "by /proc";
    fixture.tell(record);
    fixture.tell(of(44, 6, call(f)));
    CHECK(fixture.page("function_calls_total").at({"by record", "", "", "", "libx.so.1", "f"}) ==
          1);
    auto running = fixture.aggregator->processes().running();
    std::ranges::sort(running);
    CHECK(running == std::vector{std::pair(ProcessKey{42, 1'000}, 0ns),
                                 std::pair(ProcessKey{43, 5}, 0ns),
                                 std::pair(ProcessKey{44, 6}, 99ns)});
}

TEST_CASE("what an ended process has counted stays for the retention") {
    FunctionsFixture fixture(2'000, false, 1min);
    const auto f =
        fixture.number("f", {.slow_threshold = 1ns, .errors = probes::ErrorKind::nonzero});
    const auto count = [&] { fixture.tell(call(f, 5, 1, 10 * second_ns)); };
    fixture.tell(process());
    count();
    fixture.tell(of(43, 5, call(f)));
    fixture.tell(exit_at(20 * second_ns));
    fixture.tell(of(44, 6, exit_at(20 * second_ns)));  // it never made a call
    count();                                           // in the same batch of records
    const auto full = fixture.text(1min);
    fixture.aggregator->tidy(20s);
    fixture.aggregator->tidy(80s - 1ns);
    CHECK(fixture.text(1min) == full);
    CHECK(fixture.aggregator->processes().running() ==
          std::vector{std::pair(ProcessKey{43, 5}, 0ns)});
    fixture.aggregator->tidy(80s);
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"unknown", "", "", "", "libx.so.1", "f"}, 1}});
    CHECK(fixture.page("function_errors_total").empty());
    CHECK(fixture.page("function_slow_calls_total").size() == 1);
    CHECK(fixture.histograms("function_duration_seconds").size() == 1);
    CHECK(fixture.page("function_duration_max_seconds", 1min).size() == 1);
    fixture.aggregator->processes().end({43, 5}, 90s);
    fixture.aggregator->processes().end({43, 5}, 99s);  // once is enough
    fixture.tell(of(43, 5, exit_at(99 * second_ns)));
    fixture.aggregator->tidy(150s);
    CHECK(fixture.text(1min).empty());
    CHECK(fixture.aggregator->processes().running().empty());
    fixture.tell(process());  // it starts again at 0
    count();
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"python", "", "", "", "libx.so.1", "f"}, 1}});
}

TEST_CASE("another program in a process is another process") {
    FunctionsFixture fixture(2'000, true);
    const auto f = fixture.number("f");
    fixture.tell(process("shell"));
    fixture.tell(call(f));
    fixture.tell(exit_at(second_ns));
    fixture.tell(of(bench_pid, second_ns, process("python")));
    fixture.tell(of(bench_pid, second_ns, call(f)));
    fixture.tell(of(43, second_ns, process("python")));
    fixture.tell(of(43, second_ns, call(f)));
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"shell", "", "", "", "42", "libx.so.1", "f"}, 1},
               {{"python", "", "", "", "42", "libx.so.1", "f"}, 1},
               {{"python", "", "", "", "43", "libx.so.1", "f"}, 1}});
    fixture.aggregator->tidy(61s);
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"python", "", "", "", "42", "libx.so.1", "f"}, 1},
               {{"python", "", "", "", "43", "libx.so.1", "f"}, 1}});
}

TEST_CASE("every call is counted, whatever comes before and after it") {
    FunctionsFixture fixture(2'000, true, 24h);
    const auto f = fixture.number("f", {.buckets = {1'000ns}});
    std::mt19937 random(20'240'602);
    std::uint64_t calls = 0;
    for (std::uint64_t i = 1; i <= 20'000; i++) {
        const auto pid = static_cast<std::uint32_t>(random() % 5);
        const std::uint64_t since = random() % 3;
        const auto kind = random() % 40;
        if (kind < 2) {
            fixture.tell(of(pid, since, kind == 0 ? process() : process("other")));
        } else if (kind == 2) {
            fixture.tell(of(pid, since, exit_at(i)));
        } else if (kind == 3) {
            fixture.aggregator->tidy(std::chrono::nanoseconds(i));
        } else {
            fixture.tell(of(pid, since,
                            kind < 10   ? entry(f)
                            : kind < 15 ? tail_call(call(f))
                                        : call(f)));
            calls++;
        }
    }
    CHECK(fixture.sum("function_calls_total") == calls);
}
