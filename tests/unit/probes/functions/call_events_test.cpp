// What events say of single calls of named functions.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>

#include "exporter/probes/functions/count/aggregator.h"
#include "tests/unit/probes/functions/fixture.h"
#include "tests/unit/probes/functions/slow_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Json = nlohmann::json;

TEST_CASE("a result that may be an address of the process is not shown") {
    using probes::ErrorKind;
    constexpr std::uint64_t address = 0x7f12'3456'789a;
    struct Case {
        ErrorKind errors;
        std::uint64_t returned;
        Json shown;
        bool fails;
    };
    for (const auto &[errors, returned, shown, fails] :
         {Case{ErrorKind::none, address, {}, false}, Case{ErrorKind::none, 0, {}, false},
          Case{ErrorKind::null, address, {}, false}, Case{ErrorKind::null, 0, "0x0", true},
          Case{ErrorKind::nonzero, 0x7f12'0000'0000, "0x0", false},
          Case{ErrorKind::cuda_error, 0x7f12'0000'0002, "0x2", true},
          Case{ErrorKind::errno_value, ~std::uint64_t{1}, "0xfffffffe", true}}) {
        CAPTURE(static_cast<int>(errors), returned);
        SlowFixture s;
        const auto f = s.fixture.number("f", {.slow_threshold = 1'000ns, .errors = errors});
        s.fixture.tell(call(f, 2'000, returned));
        const Json one = s.document()["slow_calls"][0];
        CHECK(one["result"] == shown);
        CHECK(one["error"].is_null() != fails);
        REQUIRE(s.all.size() == 1);
        CHECK(Json::parse(s.all[0])["result"] == shown);
    }
}

TEST_CASE("each call can be told, with its arguments where they were sent") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    const auto g = s.fixture.number("g", {.entry_only = true});
    s.fixture.tell(call(f, 10));
    s.fixture.tell(with(call(f, 2'000, 5)));
    s.fixture.tell(entry(g));
    REQUIRE(s.all.size() == 3);
    Json plain = Json::parse(s.all[0]);
    CHECK(plain["event"] == "call");
    CHECK(plain["slow"] == false);
    CHECK(plain["arguments"].empty());
    CHECK(plain["error"].is_null());
    const Json expected = Json::parse(R"({
        "event": "call", "id": "42-0", "time": "1970-01-01T00:00:00.000002000Z", "function": "f",
        "library": "libx.so.1", "duration_seconds": 0.000002, "pid": 42, "tid": 42, "ppid": 41,
        "comm": "python", "script": "", "container_id": "", "slurm_job_id": "", "user": "",
        "pod_uid": "", "arguments": {"3": "0x30", "1": "0x10"},
        "result": "0x5", "error": "5", "slow": true})");
    CHECK(Json::parse(s.all[1]) == expected);
    const Json begins = Json::parse(s.all[2]);
    CHECK(begins["function"] == "g");
    CHECK(begins["duration_seconds"].is_null());
    CHECK(begins["result"].is_null());
}

TEST_CASE("a call that begins is told with the id that it has at its end, and counts then") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    auto begins = with(call(f, 0, 0, 2'000));
    begins.call.head.type = FUNC_RECORD_BEGIN;
    s.fixture.tell(begins);
    CHECK(s.fixture.sum("function_calls_total") == 0);
    s.fixture.tell(call(f, 500, 0, 2'500));
    CHECK(s.fixture.sum("function_calls_total") == 1);
    CHECK(s.fixture.aggregator->undecodable() == 0);
    REQUIRE(s.all.size() == 2);
    const Json entry = Json::parse(s.all[0]);
    CHECK(entry["event"] == "entry");
    CHECK(entry["id"] == "42-2000");
    CHECK(entry["time"] == "1970-01-01T00:00:00.000002000Z");
    CHECK(entry["arguments"] == Json{{"3", "0x30"}, {"1", "0x10"}});
    CHECK(entry["duration_seconds"].is_null());
    CHECK(entry["result"].is_null());
    CHECK(Json::parse(s.all[1])["id"] == "42-2000");
    // Too short, or of no function.
    auto broken = call(f);
    broken.head.type = FUNC_RECORD_BEGIN;
    s.fixture.tell(broken);
    begins.call.function = 1'000;
    s.fixture.tell(begins);
    CHECK(s.fixture.aggregator->undecodable() == 2);
    CHECK(s.all.size() == 2);
}

// What is known of a process when it has ended.

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
