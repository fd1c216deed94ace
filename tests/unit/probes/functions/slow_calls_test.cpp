// Slow calls of named functions: which are known whole, and what becomes of their stacks.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/functions/slow_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Json = nlohmann::json;

TEST_CASE("longer records are counted as the shorter ones that they begin with") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    s.fixture.tell(call(f, 10));
    s.fixture.tell(with(call(f, 10, 4)));
    s.fixture.tell(slow(call(f, 5'000, 4)));
    s.fixture.tell(slow(tail_call(call(f, 5'000, 4))));
    CHECK(s.fixture.sum("function_calls_total") == 4);
    CHECK(s.fixture.sum("function_slow_calls_total") == 2);
    CHECK(s.fixture.sum("function_errors_total") == 2);
    CHECK(s.fixture.aggregator->undecodable() == 0);
    // Of another size, and one that only begins.
    auto bytes = bytes_of(slow(call(f, 5'000)));
    bytes.pop_back();
    s.fixture.aggregator->on_record(bytes);
    auto begins = with(call(f));
    begins.call.head.type = FUNC_RECORD_ENTRY;
    s.fixture.tell(begins);
    CHECK(s.fixture.aggregator->undecodable() == 2);
    CHECK(s.fixture.sum("function_calls_total") == 4);
}

TEST_CASE("a slow call is told whole once its stack is known") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    s.fixture.tell(call(f, 999, 7));
    s.fixture.tell(slow(call(f, 60'000'000, 0xffff'ffff'0000'0007, 3'000), {0, 11, 99, 12}));
    REQUIRE(s.asked.size() == 1);
    CHECK(s.asked[0].tgid == bench_pid);
    CHECK(s.asked[0].addresses == std::vector<std::uint64_t>{11, 12});
    CHECK(s.asked[0].code_start == 5);
    CHECK(s.completed.empty());
    CHECK(s.document()["slow_calls"][0]["stack"].is_null());
    s.answer(s.asked[0].ticket, "caller");
    REQUIRE(s.completed.size() == 1);
    const Json expected = Json::parse(R"({
        "id": "42-18446744073649554616", "time": "1970-01-01T00:00:00.000003000Z",
        "function": "f", "library": "libx.so.1",
        "duration_seconds": 0.06, "pid": 42, "tid": 42, "ppid": 41, "comm": "python",
        "script": "", "container_id": "", "slurm_job_id": "", "user": "",
        "thread": "worker", "pod_uid": "", "arguments": {"3": "0x30", "1": "0x10"},
        "result": "0x7", "error": "7",
        "stack": [{"function": "caller", "module": "a.out", "offset": 4},
                  {"function": "main", "module": "a.out", "offset": 8}]})");
    CHECK(Json::parse(s.completed[0]) == expected);
    CHECK(s.document() == Json{{"slow_calls", {expected}}, {"left_out", 0}, {"truncated", false}});
    CHECK(s.calls.stacks_lost() == 0);
}

TEST_CASE("a slow call without details is told at once, with what is known") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    s.fixture.tell(tail_call(call(f, 2'000, 3)));
    REQUIRE(s.completed.size() == 1);
    const Json one = Json::parse(s.completed[0]);
    CHECK(one["stack"].is_null());
    CHECK(one["thread"].is_null());
    CHECK(one["arguments"].empty());
    CHECK(one["result"].is_null());
    CHECK(one["error"].is_null());
    CHECK(s.asked.empty());
}

TEST_CASE("a stack is looked up once for a process") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    s.fixture.tell(slow(call(f, 2'000)));
    s.fixture.tell(slow(call(f, 3'000)));
    s.fixture.tell(slow(call(f, 4'000), {1, 3}));
    REQUIRE(s.asked.size() == 2);
    s.answer(s.asked[0].ticket, "one");
    CHECK(s.completed.size() == 2);
    s.answer(s.asked[0].ticket, "one");  // twice, and one that was not asked
    s.answer(1'000'000, "one");
    CHECK(s.completed.size() == 2);
    s.fixture.tell(slow(call(f, 5'000)));
    CHECK(s.asked.size() == 2);
    CHECK(s.completed.size() == 3);
    s.fixture.tell(of(43, 5, slow(call(f, 6'000)).arguments.call));
    auto other = slow(call(f, 6'000));
    other.arguments.call = of(43, 5, other.arguments.call);
    s.fixture.tell(other);
    CHECK(s.asked.size() == 3);
}

TEST_CASE("stacks past the limit are left out, and counted") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    for (std::uint64_t i = 0; i < SlowCallHistory::max_pending + 10; i++) {
        s.fixture.tell(slow(call(f, 2'000), {i + 100}));
    }
    CHECK(s.asked.size() == SlowCallHistory::max_pending);
    CHECK(s.calls.stacks_lost() == 10);
    CHECK(s.completed.size() == 10);
    SlowFixture same;
    const auto g = same.fixture.number("g", with_arguments);
    for (std::uint64_t i = 0; i < SlowCallHistory::max_pending + 10; i++) {
        same.fixture.tell(slow(call(g, 2'000)));
    }
    CHECK(same.asked.size() == 1);
    CHECK(same.calls.stacks_lost() == 10);
    same.answer(same.asked[0].ticket, "one");
    CHECK(same.completed.size() == SlowCallHistory::max_pending + 10);
}

TEST_CASE("a record of a slow call may say anything") {
    SlowFixture s;
    auto options = with_arguments;
    options.arguments = {6, 1};
    const auto f = s.fixture.number("f\xff\"\n", options);
    auto record = slow(call(f, UINT64_MAX, UINT64_MAX, UINT64_MAX), {1}, "\xff\"\n\\<b>");
    record.frame_count = UINT32_MAX;
    s.fixture.tell(record);
    REQUIRE(s.asked.size() == 1);
    CHECK(s.asked[0].addresses.size() == 1);
    s.answer(s.asked[0].ticket, "\xfe");
    CHECK(Json::parse(s.completed.at(0))["arguments"]["6"] == "0x60");
    CHECK(s.document()["slow_calls"].size() == 1);
    record.frame_count = 0;
    s.fixture.tell(record);
    CHECK(s.asked.back().addresses.empty());
}

TEST_CASE("a process that ended later than a round began is kept for its slow calls") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    s.fixture.tell(exit_at(20 * second_ns));
    s.fixture.aggregator->tidy(20s - 1ns);
    s.fixture.tell(slow(call(f, 2'000)));
    s.answer(s.asked.at(0).ticket, "caller");
    CHECK(Json::parse(s.completed.at(0))["comm"] == "python");
    s.fixture.aggregator->tidy(20s);
    s.fixture.tell(call(f, 2'000));
    CHECK(Json::parse(s.completed.at(1))["comm"] == "unknown");
}
