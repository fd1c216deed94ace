#include "exporter/probes/functions/count/aggregator.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using gpusnoop::probes::ErrorKind;

namespace {

const probes::FunctionOptions at_entry = {.buckets = {100ns, 1'000ns}, .entry_only = true};

using Keys = std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>>;

}  // namespace

TEST_CASE("calls, durations, slow calls and errors are of a function in a process") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all, "liby.so");
    fixture.tell(process());
    fixture.tell(of(43, 5, process("other program")));
    for (const std::uint64_t duration : {0, 100, 101, 999, 1'000, 1'001}) {
        fixture.tell(call(f, duration));
    }
    fixture.tell(call(g, 7, 3));
    fixture.tell(call(g, 9'000, 3));
    fixture.tell(of(43, 5, call(g, 1, 4)));
    const series::LabelValues of_f = {"python", "", "", "", "libx.so.1", "f"};
    const series::LabelValues of_g = {"python", "", "", "", "liby.so", "g"};
    const series::LabelValues others = {"other program", "", "", "", "liby.so", "g"};
    CHECK(fixture.page("function_calls_total") == Page{{of_f, 6}, {of_g, 2}, {others, 1}});
    CHECK(fixture.page("function_slow_calls_total") == Page{{of_f, 2}, {of_g, 1}, {others, 0}});
    CHECK(fixture.page("function_errors_total") ==
          Page{{{"python", "", "", "", "liby.so", "g", "3"}, 2},
               {{"other program", "", "", "", "liby.so", "g", "4"}, 1}});
    CHECK(fixture.histograms("function_duration_seconds") ==
          Histograms{{of_f, {2, 3, 1, 3'201}}, {of_g, {1, 0, 1, 9'007}}, {others, {1, 0, 0, 1}}});
    CHECK(fixture.aggregator->undecodable() == 0);
}

TEST_CASE("without a threshold no call is slow") {
    FunctionsFixture fixture;
    fixture.tell(call(fixture.number("f"), UINT64_MAX / 2));
    CHECK(fixture.page("function_slow_calls_total").empty());
    CHECK(fixture.sum("function_calls_total") == 1);
}

TEST_CASE("of a function that is counted at its entry nothing else is known") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", at_entry);
    fixture.tell(entry(f));
    fixture.tell(entry(f));
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"python", "", "", "", "libx.so.1", "f"}, 2}});
    CHECK(fixture.histograms("function_duration_seconds").empty());
    CHECK(fixture.page("function_slow_calls_total").empty());
    CHECK(fixture.page("function_duration_max_seconds", 1min).empty());
}

TEST_CASE("a call that another function ended for has a duration and no result") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    fixture.tell(tail_call(call(f, 2'000, 1)));
    CHECK(fixture.page("function_errors_total").empty());
    CHECK(fixture.sum("function_calls_total") == 1);
    CHECK(fixture.sum("function_slow_calls_total") == 1);
    CHECK(fixture.histograms("function_duration_seconds").begin()->second ==
          std::vector<std::uint64_t>{0, 0, 1, 2'000});
    fixture.tell(call(f, 2'000, 1));
    CHECK(fixture.sum("function_errors_total") == 1);
}

TEST_CASE("two copies of a library have the same series") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    auto options = with_all;
    options.slow_threshold.reset();
    const auto same = fixture.number("f", with_all);
    const auto copied = fixture.number("f", options);
    const auto begins = fixture.number("f", at_entry);
    const auto group = fixture.number("f", with_all, "libx.so.1", "another");
    CHECK(std::set{f, same, copied, begins, group}.size() == 5);
    fixture.tell(call(f, 10, 1, 1));
    fixture.tell(call(same, 20, 0, 1));
    fixture.tell(call(copied, 2'000, 1, 2));
    fixture.tell(call(group, 500, 2, 3));
    fixture.tell(entry(begins));
    const series::LabelValues labels = {"python", "", "", "", "libx.so.1", "f"};
    CHECK(fixture.page("function_calls_total") == Page{{labels, 5}});
    CHECK(fixture.page("function_slow_calls_total") == Page{{labels, 0}});
    CHECK(fixture.histograms("function_duration_seconds") ==
          Histograms{{labels, {2, 1, 1, 2'530}}});
    CHECK(fixture.page("function_duration_min_seconds", 1min) == Page{{labels, 10}});
    CHECK(fixture.page("function_duration_max_seconds", 1min) == Page{{labels, 2'000}});
    CHECK(fixture.sum("function_errors_total") == 3);
    CHECK(fixture.page("function_errors_total").size() == 2);
}

TEST_CASE("functions with other buckets are one family on the page") {
    FunctionsFixture fixture;
    fixture.tell(process());
    auto wide = with_all;
    wide.buckets = {1s, 2s, 3s};
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", wide);
    const auto h = fixture.number("h", with_all);
    for (const auto number : {f, g, h}) {
        fixture.tell(call(number, 2'000'000'000));
    }
    CHECK(fixture.histograms("function_duration_seconds") ==
          Histograms{{{"python", "", "", "", "libx.so.1", "f"}, {0, 0, 1, 2'000'000'000}},
                     {{"python", "", "", "", "libx.so.1", "g"}, {0, 1, 0, 0, 2'000'000'000}},
                     {{"python", "", "", "", "libx.so.1", "h"}, {0, 0, 1, 2'000'000'000}}});
    const std::string text = fixture.text();
    CHECK(count_of(text, "# HELP gpusnoop_function_duration_seconds ") == 1);
    CHECK(count_of(text, "# TYPE gpusnoop_function_duration_seconds histogram\n") == 1);
    CHECK(count_of(text, "gpusnoop_function_duration_seconds_count{") == 3);
    CHECK(count_of(text, "gpusnoop_function_duration_seconds_bucket{") == 3 + 4 + 3);
    CHECK(repeated_series(text).empty());
}

// Two patterns of a group may show their functions by one name.
TEST_CASE("a function has the buckets of the first of its numbers") {
    FunctionsFixture fixture;
    auto wide = with_all;
    wide.buckets = {1s};
    const auto g = fixture.number("f", wide);
    fixture.tell(call(fixture.number("f", with_all), 100));
    fixture.tell(call(g, 101));
    fixture.tell(of(43, 5, call(g, 102)));
    CHECK(fixture.histograms("function_duration_seconds") ==
          Histograms{{{"unknown", "", "", "", "libx.so.1", "f"}, {1, 2, 0, 303}}});
    CHECK(repeated_series(fixture.text()).empty());
}

TEST_CASE("what does not fit is on the page once, whatever its buckets") {
    FunctionsFixture fixture(1);
    auto wide = with_all;
    wide.buckets = {1s};
    for (const char *name : {"a", "b", "c"}) {
        fixture.tell(call(fixture.number(name, with_all)));
        fixture.tell(call(fixture.number(std::string(name) + name, wide)));
    }
    CHECK(repeated_series(fixture.text()).empty());
}

TEST_CASE("past a number of codes, errors are other errors") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all);
    for (int round = 0; round < 2; round++) {
        for (std::uint64_t code = 1; code <= 300; code++) {
            fixture.tell(call(f, 1, code));
        }
    }
    fixture.tell(call(g, 1, 300));
    Page expected = {{{"python", "", "", "", "libx.so.1", "f", "other"}, 2 * 44},
                     {{"python", "", "", "", "libx.so.1", "g", "300"}, 1}};
    for (int code = 1; code <= 256; code++) {
        expected[{"python", "", "", "", "libx.so.1", "f", std::to_string(code)}] = 2;
    }
    CHECK(fixture.page("function_errors_total") == expected);
}

TEST_CASE("kinds of errors of one user's processes leave room for those of others") {
    constexpr std::size_t code = 192;
    FunctionsFixture fixture(
        FunctionsSettings{.budget = [](std::string_view) { return 2'000U; },
                          .retention = 1min,
                          .room = std::make_shared<UserRoom>(
                              UserRoom::Limits{.bytes = 20 * code, .bytes_of_user = 10 * code})});
    const auto f = fixture.number("f", with_all);
    const auto fail = [&](std::uint32_t pid, std::uint32_t uid, std::string_view comm) {
        func_process_record started = process(comm);
        started.identity.uid = uid;
        fixture.tell(of(pid, 5, started));
        for (std::uint64_t result = 1; result <= 6; result++) {
            fixture.tell(of(pid, 5, call(f, 1, result)));
        }
    };
    const auto errors = [&](const std::string &comm, const std::string &result) {
        const Page page = fixture.page("function_errors_total");
        const auto found = page.find({comm, "", "", "", "libx.so.1", "f", result});
        return found == page.end() ? 0 : found->second;
    };
    fail(1, 4'000'000'000, "first");
    fail(2, 4'000'000'000, "second");
    fail(3, 4'000'000'001, "third");
    CHECK(errors("first", "6") == 1);
    CHECK(errors("first", "other") == 0);
    CHECK(errors("second", "4") == 1);
    CHECK(errors("second", "other") == 2);
    CHECK(errors("third", "6") == 1);
}

TEST_CASE("the extremes are those of the last whole minute, of all processes of a name") {
    FunctionsFixture fixture;
    fixture.tell(process());
    fixture.tell(of(43, 5, process()));
    const auto f = fixture.number("f", with_all);
    const series::LabelValues labels = {"python", "", "", "", "libx.so.1", "f"};
    fixture.tell(call(f, 300, 0, 60 * second_ns));
    fixture.tell(of(43, 5, call(f, 100, 0, 61 * second_ns)));
    fixture.tell(tail_call(call(f, 800, 0, 120 * second_ns - 1)));
    CHECK(fixture.page("function_duration_min_seconds", 119s).empty());
    CHECK(fixture.page("function_duration_min_seconds", 120s) == Page{{labels, 100}});
    fixture.tell(call(f, 50, 0, 120 * second_ns));
    fixture.tell(call(f, 900, 0, 119 * second_ns));  // told late
    CHECK(fixture.page("function_duration_min_seconds", 121s) == Page{{labels, 100}});
    CHECK(fixture.page("function_duration_max_seconds", 121s) == Page{{labels, 900}});
    CHECK(fixture.page("function_duration_max_seconds", 180s) == Page{{labels, 50}});
    CHECK(fixture.page("function_duration_max_seconds", 240s).empty());
}

TEST_CASE("what does not fit the budget is in other, and the sums are exact") {
    FunctionsFixture fixture(3);
    fixture.tell(process());
    std::uint64_t calls = 0;
    for (std::uint64_t i = 1; i <= 50; i++) {
        const auto number = fixture.number("f" + std::to_string(i), with_all);
        for (std::uint64_t n = 0; n < i; n++, calls++) {
            fixture.tell(call(number, 1'000, 1, 1));
        }
    }
    const series::LabelValues other = {"other", "other", "other", "other", "other", "other"};
    CHECK(fixture.page("function_calls_total").size() == 4);
    CHECK(fixture.page("function_calls_total").at(other) == calls - 1 - 2 - 3);
    CHECK(fixture.sum("function_calls_total") == calls);
    CHECK(fixture.sum("function_slow_calls_total") == calls);
    CHECK(fixture.sum("function_errors_total") == calls);
    CHECK(fixture.histograms("function_duration_seconds").at(other) ==
          std::vector<std::uint64_t>{0, calls - 6, 0, (calls - 6) * 1'000});
    CHECK(fixture.page("function_duration_max_seconds", 1min).size() == 4);
    CHECK(fixture.page("function_duration_max_seconds", 2min).empty());
    CHECK(fixture.aggregator->folded() ==
          std::map<std::string, std::uint64_t>{
              {"gpusnoop_function_calls_total", 47},
              {"gpusnoop_function_errors_total", 47},
              {"gpusnoop_function_slow_calls_total", 47},
              {"gpusnoop_function_duration_seconds", 47},
              {"gpusnoop_function_duration_min_seconds", 47},
              {"gpusnoop_function_duration_max_seconds", 47},
              {"gpusnoop_function_unobserved_seconds_total", 0},
              {"gpusnoop_nccl_operations_total", 0},
              {"gpusnoop_nccl_bytes_total", 0},
              {"gpusnoop_nccl_sequence", 0},
              {"gpusnoop_overhead_seconds_total", 0},
              {"gpusnoop_nccl_last_operation_timestamp_seconds", 0}});
}

// They are no sums.
TEST_CASE("the extremes of other are extremes") {
    FunctionsFixture fixture(1);
    for (const std::uint64_t duration : {5, 300, 200, 400}) {
        fixture.tell(call(fixture.number(std::to_string(duration)), duration, 0, 1));
    }
    const series::LabelValues other = {"other", "other", "other", "other", "other", "other"};
    const auto min = fixture.page("function_duration_min_seconds", 1min).at(other);
    const auto max = fixture.page("function_duration_max_seconds", 1min).at(other);
    CHECK(std::pair(min, max) == std::pair(std::uint64_t{5}, std::uint64_t{400}));
}

TEST_CASE("what is no record of ours is counted and changes nothing") {
    FunctionsFixture fixture;
    fixture.tell(process());
    const auto f = fixture.number("f", with_all);
    fixture.tell(call(f, 500, 1, 1));
    const std::string text = fixture.text(1min);
    std::mt19937 random(20'240'601);
    const std::vector<std::vector<std::byte>> records = {bytes_of(process()), bytes_of(exit_at(1)),
                                                         bytes_of(call(f)), bytes_of(entry(f)),
                                                         bytes_of(tail_call(call(f)))};
    std::uint64_t told = 0;
    const auto tell = [&](std::span<const std::byte> bytes) {
        fixture.aggregator->on_record(bytes);
        told++;
    };
    for (const auto &record : records) {
        for (std::size_t size = 0; size < record.size(); size++) {
            tell(std::span(record).first(size));
        }
        for (std::size_t more = 1; more < 300; more++) {
            auto longer = record;
            longer.resize(record.size() + more);
            if (longer.size() != sizeof(func_arguments_record)) {  // which begins as a shorter one
                tell(longer);
            }
        }
    }
    for (const std::uint32_t number : {f + 1, f + 1'000, UINT32_MAX}) {
        tell(bytes_of(call(number)));
        tell(bytes_of(entry(number)));
        tell(bytes_of(tail_call(call(number))));
    }
    for (int i = 0; i < 20'000; i++) {
        std::vector<std::byte> bytes(random() % 300);
        for (std::byte &byte : bytes) {
            byte = static_cast<std::byte>(random());
        }
        if (bytes.size() >= sizeof(func_record)) {  // else it is none, whatever it says
            const std::uint32_t type =
                FUNC_RECORD_TAIL_CALL + 1 + static_cast<std::uint32_t>(random() % 1'000);
            std::memcpy(&bytes[offsetof(func_record, type)], &type, sizeof(type));
        }
        tell(bytes);
    }
    CHECK(fixture.aggregator->undecodable() == told);
    CHECK(fixture.text(1min) == text);
    CHECK(fixture.aggregator->processes().running() == Keys{{{bench_pid, bench_since}, 0ns}});
}

TEST_CASE("a record with an unknown number leaves its process to the next") {
    FunctionsFixture fixture;
    fixture.tell(call(7));
    CHECK(fixture.aggregator->processes().running().empty());
    fixture.tell(process());
    fixture.tell(call(fixture.number("f")));
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"python", "", "", "", "libx.so.1", "f"}, 1}});
}

TEST_CASE("the end of a call of which only the entry is traced is no record of ours") {
    FunctionsFixture fixture;
    fixture.tell(process());
    fixture.tell(call(fixture.number("f", {.entry_only = true})));
    CHECK(fixture.aggregator->undecodable() == 1);
    CHECK(fixture.page("function_calls_total") ==
          Page{{{"python", "", "", "", "libx.so.1", "f"}, 0}});
}

TEST_CASE("the last slow call of a series is its exemplar") {
    FunctionsSettings settings{[](std::string_view) { return 100U; }, false, 1min};
    settings.to_realtime = [](std::chrono::nanoseconds at) { return at + 1'000s; };
    FunctionsFixture fixture(std::move(settings));
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all);
    fixture.tell(process());
    fixture.tell(of(43, 5, process("other program")));
    const auto ended = [](func_call_record record, std::uint64_t at_ns) {
        record.head.ended_ns = at_ns;
        return record;
    };
    using Shown = std::map<series::LabelValues, series::Exemplar>;
    const auto exemplars_of = [&](std::string_view name) {
        Shown shown;
        for (const auto &family : fixture.aggregator->report({})) {
            if (family.description->name != name) {
                continue;
            }
            for (std::size_t i = 0; i < family.exemplars.size(); i++) {
                if (family.exemplars[i] != nullptr) {
                    shown[*family.labels[i]] = *family.exemplars[i];
                }
            }
        }
        return shown;
    };
    const auto exemplars = [&] {
        for (const auto &family : fixture.aggregator->report({})) {
            const std::string_view name = family.description->name;
            CHECK((family.exemplars.empty() || name == "gpusnoop_function_slow_calls_total" ||
                   name == "gpusnoop_function_duration_seconds"));
        }
        const Shown shown = exemplars_of("gpusnoop_function_slow_calls_total");
        const Shown of_durations = exemplars_of("gpusnoop_function_duration_seconds");
        CHECK(of_durations.size() == shown.size());
        for (const auto &[labels, exemplar] : shown) {
            REQUIRE(of_durations.contains(labels));
            CHECK(of_durations.at(labels).labels == exemplar.labels);
            CHECK(of_durations.at(labels).value == exemplar.value);
            CHECK(of_durations.at(labels).at == exemplar.at);
        }
        return shown;
    };
    fixture.tell(ended(call(f, 999), 1));
    CHECK(exemplars().empty());
    fixture.tell(ended(call(f, 2'000), 10));
    fixture.tell(ended(call(f, 3'000), 20));
    // Another thread's call, which ended before: its record came into the ring later.
    fixture.tell(ended(call(f, 6'000), 19));
    fixture.tell(ended(call(f, 10), 30));
    fixture.tell(of(43, 5, ended(call(g, 4'000), 40)));
    const auto check = [](const Shown &shown, const std::string &comm, const std::string &pid,
                          const std::string &function, double seconds,
                          std::chrono::nanoseconds at) {
        const auto found = shown.find({comm, "", "", "", "libx.so.1", function});
        REQUIRE(found != shown.end());
        CHECK(found->second.labels ==
              std::vector<std::pair<std::string, std::string>>{{"pid", pid}, {"comm", comm}});
        CHECK(found->second.value == seconds);
        CHECK(found->second.at == at);
    };
    for (int twice = 0; twice < 2; twice++) {
        const Shown shown = exemplars();
        REQUIRE(shown.size() == 2);
        check(shown, "python", "42", "f", 3e-6, 1'000s + 20ns);
        check(shown, "other program", "43", "g", 4e-6, 1'000s + 40ns);
    }
    // One that ended before the last page was made, and came too late for it.
    fixture.tell(ended(call(f, 7'000), 18));
    check(exemplars(), "python", "42", "f", 3e-6, 1'000s + 20ns);
    // One that nobody has asked for before its process is gone.
    fixture.tell(ended(call(f, 5'000), 50));
    fixture.tell(exit_at(60));
    fixture.aggregator->tidy(1s);
    check(exemplars(), "python", "42", "f", 5e-6, 1'000s + 50ns);
    // They go with their series.
    fixture.aggregator->tidy(10min);
    CHECK(exemplars().size() == 1);
}

TEST_CASE("calls are taken once, by process and number") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f");
    const auto g = fixture.number("g");
    fixture.tell(process());
    fixture.tell(call(f));
    fixture.tell(call(f));
    fixture.tell(of(43, 2'000, call(g)));
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> taken;
    for (const CallsOfFunction &one : fixture.aggregator->take_calls()) {
        taken[{one.process.tgid, one.number}] = one.calls;
    }
    CHECK(taken == decltype(taken){{{bench_pid, f}, 2}, {{43, g}, 1}});
    CHECK(fixture.aggregator->take_calls().empty());
    fixture.tell(call(f));
    const auto more = fixture.aggregator->take_calls();
    REQUIRE(more.size() == 1);
    CHECK(more.front().calls == 1);
    fixture.tell(call(f));
    fixture.tell(exit_at(3'000));
    CHECK(fixture.aggregator->take_calls().empty());
}

TEST_CASE("the calls since the last time are known when the functions of numbers change") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f", with_all);
    const auto g = fixture.number("g", with_all);
    const auto h = fixture.number("h", with_all);
    fixture.tell(process());
    const bool is_removed = GENERATE(false, true);
    fixture.tell(call(f));
    fixture.tell(call(g));
    (void)fixture.aggregator->take_calls();
    fixture.tell(call(f));
    fixture.table.change({{h, nullptr, true, is_removed}});
    fixture.aggregator->refresh(*fixture.table.apply(fixture.table.queued()), 1s);
    fixture.tell(call(f));
    const auto calls = fixture.aggregator->take_calls();
    REQUIRE(calls.size() == 1);
    CHECK(calls.front().number == f);
    CHECK(calls.front().calls == 2);
    CHECK(fixture.page("function_calls_total").at({"python", "", "", "", "libx.so.1", "f"}) == 3);
}

TEST_CASE("unobserved time stays as long as the function, and goes after the retention") {
    std::vector<UnobservedFunction> unobserved = {{"libx.so.1", "f", 1s}, {"libx.so.1", "g", 5s}};
    FunctionsFixture fixture(FunctionsSettings{
        .budget = [](std::string_view) { return 2'000; },
        .retention = 60s,
        .take_unobserved = [&] { return std::exchange(unobserved, {}); },
    });
    fixture.number("f", with_all);
    const auto names = [&](std::chrono::nanoseconds now) {
        std::set<std::string> shown;
        for (const auto &[labels, time] : fixture.page("function_unobserved_seconds_total", now)) {
            shown.insert(labels.at(1));
        }
        return shown;
    };
    CHECK(names(10s) == std::set<std::string>{"f", "g"});
    fixture.aggregator->tidy(69s);
    CHECK(names(69s) == std::set<std::string>{"f", "g"});
    fixture.aggregator->tidy(70s);
    CHECK(names(70s) == std::set<std::string>{"f"});
    fixture.aggregator->tidy(1'000s);
    CHECK(names(1'000s) == std::set<std::string>{"f"});
}

TEST_CASE("the unobserved time of a function is added up over its places") {
    std::vector<UnobservedFunction> unobserved;
    FunctionsFixture fixture(FunctionsSettings{
        .budget = [](std::string_view) { return 2'000; },
        .take_unobserved = [&] { return std::exchange(unobserved, {}); },
    });
    CHECK(fixture.page("function_unobserved_seconds_total").empty());
    unobserved = {{"libx.so.1", "f", 1s}, {"libx.so.1", "g", 5s}, {"libx.so.1", "f", 2s}};
    const Page first = {{{"libx.so.1", "f"}, 3 * second_ns}, {{"libx.so.1", "g"}, 5 * second_ns}};
    CHECK(fixture.page("function_unobserved_seconds_total") == first);
    unobserved = {{"libx.so.1", "f", 4s}};
    const Page second = {{{"libx.so.1", "f"}, 7 * second_ns}, {{"libx.so.1", "g"}, 5 * second_ns}};
    CHECK(fixture.page("function_unobserved_seconds_total") == second);
}
