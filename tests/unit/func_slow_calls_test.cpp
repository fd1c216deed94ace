// Single calls of named functions: what is kept of slow ones, what the log, the document and sinks
// say.
#include "exporter/probes/func_slow_calls.h"

#include <spdlog/spdlog.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/rate_limit.h"
#include "exporter/base/utc_time.h"
#include "exporter/probes/func_call_json.h"
#include "exporter/probes/func_slow_document.h"
#include "tests/unit/func_bench.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Json = nlohmann::json;
using std::chrono::nanoseconds;

namespace {

const config::FunctionOptions with_arguments = {
    .slow_threshold = 1'000ns, .errors = config::ErrorKind::nonzero, .arguments = {3, 1}};

func_arguments_record with(func_call_record record) {
    func_arguments_record longer{};
    longer.call = record;
    for (std::uint64_t i = 0; i < FUNC_ARGUMENTS; i++) {
        longer.argument[i] = 0x10 * (i + 1);
    }
    longer.pointed = 77;
    longer.has_pointed = 1;
    return longer;
}

func_slow_record slow(func_call_record record, std::vector<std::uint64_t> frames = {1, 2},
                      std::string_view comm = "worker") {
    func_slow_record longer{};
    longer.arguments = with(record);
    std::memcpy(longer.comm, comm.data(), std::min(comm.size(), sizeof(longer.comm)));
    longer.frame_count = static_cast<std::uint32_t>(frames.size());
    std::copy(frames.begin(), frames.end(), longer.frames);
    longer.trampoline = 99;
    longer.code_start = 5;
    return longer;
}

// The aggregator, and what it tells of slow calls.
struct SlowBench {
    explicit SlowBench(FuncSlowCalls::Settings settings = {.keep = 3, .log_per_second = 0})
        : calls((
                    settings.on_complete =
                        [this](const SlowCall &call) { completed.push_back(to_json(call)); },
                    settings),
                [this](symbols::StackRequest request) { asked.push_back(std::move(request)); }),
          bench({[](std::string_view) { return 2'000U; }, false, 1min,
                 [this](const FuncCall &call) { calls.on_call(call, ended_of(call), now); },
                 [this](const FuncCall &call) { all.push_back(to_json(call, ended_of(call))); },
                 [this](const FuncCall &call) { all.push_back(to_json(call, ended_of(call))); }}) {
        bench.tell(process("python"));
    }

    static nanoseconds ended_of(const FuncCall &call) {
        return nanoseconds(static_cast<std::int64_t>(call.record->head.ended_ns));
    }
    void answer(std::uint64_t ticket, const std::string &function) {
        calls.on_stacks({{ticket, {{function, "a.out", 4}, {"main", "a.out", 8}}}}, now);
    }
    [[nodiscard]] Json document(const DocumentParameters &parameters = {}) const {
        const auto written = slow_calls_document(calls.list()).write(parameters);
        REQUIRE(written);
        CHECK(written->content_type == "application/json");
        return Json::parse(written->text);
    }

    nanoseconds now = 10s;
    std::vector<symbols::StackRequest> asked;
    std::vector<std::string> completed;
    std::vector<std::string> all;
    FuncSlowCalls calls;
    FuncBench bench;
};

std::vector<std::uint64_t> durations(const Json &document) {
    std::vector<std::uint64_t> values;
    for (const Json &call : document["slow_calls"]) {
        values.push_back(
            static_cast<std::uint64_t>(call["duration_seconds"].get<double>() * 1e9 + 0.5));
    }
    return values;
}

// The program's log, for as long as this lives.
class CaughtLog {
public:
    CaughtLog() : file_(std::tmpfile()) {
        REQUIRE(file_ != nullptr);
        log::setup(log::Level::info, log::Format::json, file_);
    }
    ~CaughtLog() {
        log::setup(log::Level::info, log::Format::logfmt);
        std::fclose(file_);
    }
    CaughtLog(const CaughtLog &) = delete;
    CaughtLog &operator=(const CaughtLog &) = delete;
    [[nodiscard]] std::vector<Json> lines() const {
        std::rewind(file_);
        std::vector<Json> all;
        std::array<char, 8192> line{};
        while (std::fgets(line.data(), line.size(), file_) != nullptr) {
            all.push_back(Json::parse(line.data()));
        }
        return all;
    }

private:
    std::FILE *file_;
};

}  // namespace

TEST_CASE("times of day are written with all their digits") {
    CHECK(utc_time(0ns) == "1970-01-01T00:00:00.000000000Z");
    CHECK(utc_time(1'772'357'400'000'000'001ns) == "2026-03-01T09:30:00.000000001Z");
}

TEST_CASE("so many a second are allowed, and the others counted") {
    RateLimit limit(2);
    CHECK(limit.allow(5s));
    CHECK(limit.allow(5s + 1ns));
    CHECK_FALSE(limit.allow(6s - 1ns));
    CHECK_FALSE(limit.is_over(6s - 1ns));
    CHECK(limit.is_over(6s));
    CHECK(limit.take_suppressed() == 1);
    CHECK(limit.take_suppressed() == 0);
    CHECK(limit.allow(6s));
    RateLimit none(0);
    CHECK_FALSE(none.allow(1s));
}

TEST_CASE("longer records are counted as the shorter ones that they begin with") {
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    s.bench.tell(call(f, 10));
    s.bench.tell(with(call(f, 10, 4)));
    s.bench.tell(slow(call(f, 5'000, 4)));
    s.bench.tell(slow(tail_call(call(f, 5'000, 4))));
    CHECK(s.bench.sum("function_calls_total") == 4);
    CHECK(s.bench.sum("function_slow_calls_total") == 2);
    CHECK(s.bench.sum("function_errors_total") == 2);
    CHECK(s.bench.aggregator->undecodable() == 0);
    // Of another size, and one that only begins.
    auto bytes = bytes_of(slow(call(f, 5'000)));
    bytes.pop_back();
    s.bench.aggregator->on_record(bytes);
    auto begins = with(call(f));
    begins.call.head.type = FUNC_RECORD_ENTRY;
    s.bench.tell(begins);
    CHECK(s.bench.aggregator->undecodable() == 2);
    CHECK(s.bench.sum("function_calls_total") == 4);
}

TEST_CASE("a slow call is told whole once its stack is known") {
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    s.bench.tell(call(f, 999, 7));
    s.bench.tell(slow(call(f, 60'000'000, 0xffff'ffff'0000'0007, 3'000), {0, 11, 99, 12}));
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
        "thread": "worker", "container": "", "pod_uid": "", "arguments": {"3": "0x30", "1": "0x10"},
        "result": "0x7", "error": "7",
        "stack": [{"function": "caller", "module": "a.out", "offset": 4},
                  {"function": "main", "module": "a.out", "offset": 8}]})");
    CHECK(Json::parse(s.completed[0]) == expected);
    CHECK(s.document() ==
          Json{{"slow_calls", {expected}}, {"slow_calls_left_out", 0}, {"truncated", false}});
    CHECK(s.calls.stacks_lost() == 0);
}

TEST_CASE("a result that may be an address of the process is not shown") {
    using config::ErrorKind;
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
        SlowBench s;
        const auto f = s.bench.number("f", {.slow_threshold = 1'000ns, .errors = errors});
        s.bench.tell(call(f, 2'000, returned));
        const Json one = s.document()["slow_calls"][0];
        CHECK(one["result"] == shown);
        CHECK(one["error"].is_null() != fails);
        REQUIRE(s.all.size() == 1);
        CHECK(Json::parse(s.all[0])["result"] == shown);
    }
}

TEST_CASE("a slow call without details is told at once, with what is known") {
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    s.bench.tell(tail_call(call(f, 2'000, 3)));
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
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    s.bench.tell(slow(call(f, 2'000)));
    s.bench.tell(slow(call(f, 3'000)));
    s.bench.tell(slow(call(f, 4'000), {1, 3}));
    REQUIRE(s.asked.size() == 2);
    s.answer(s.asked[0].ticket, "one");
    CHECK(s.completed.size() == 2);
    s.answer(s.asked[0].ticket, "one");  // twice, and one that was not asked
    s.answer(1'000'000, "one");
    CHECK(s.completed.size() == 2);
    s.bench.tell(slow(call(f, 5'000)));
    CHECK(s.asked.size() == 2);
    CHECK(s.completed.size() == 3);
    s.bench.tell(of(43, 5, slow(call(f, 6'000)).arguments.call));
    auto other = slow(call(f, 6'000));
    other.arguments.call = of(43, 5, other.arguments.call);
    s.bench.tell(other);
    CHECK(s.asked.size() == 3);
}

TEST_CASE("stacks past the limit are left out, and counted") {
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    for (std::uint64_t i = 0; i < FuncSlowCalls::max_pending + 10; i++) {
        s.bench.tell(slow(call(f, 2'000), {i + 100}));
    }
    CHECK(s.asked.size() == FuncSlowCalls::max_pending);
    CHECK(s.calls.stacks_lost() == 10);
    CHECK(s.completed.size() == 10);
    SlowBench same;
    const auto g = same.bench.number("g", with_arguments);
    for (std::uint64_t i = 0; i < FuncSlowCalls::max_pending + 10; i++) {
        same.bench.tell(slow(call(g, 2'000)));
    }
    CHECK(same.asked.size() == 1);
    CHECK(same.calls.stacks_lost() == 10);
    same.answer(same.asked[0].ticket, "one");
    CHECK(same.completed.size() == FuncSlowCalls::max_pending + 10);
}

TEST_CASE("a record of a slow call may say anything") {
    SlowBench s;
    auto options = with_arguments;
    options.arguments = {6, 1};
    const auto f = s.bench.number("f\xff\"\n", options);
    auto record = slow(call(f, UINT64_MAX, UINT64_MAX, UINT64_MAX), {1}, "\xff\"\n\\<b>");
    record.frame_count = UINT32_MAX;
    s.bench.tell(record);
    REQUIRE(s.asked.size() == 1);
    CHECK(s.asked[0].addresses.size() == 1);
    s.answer(s.asked[0].ticket, "\xfe");
    CHECK(Json::parse(s.completed.at(0))["arguments"]["6"] == "0x60");
    CHECK(s.document()["slow_calls"].size() == 1);
    record.frame_count = 0;
    s.bench.tell(record);
    CHECK(s.asked.back().addresses.empty());
}

TEST_CASE("the last slow calls are kept, and shown with the newest first") {
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    const auto g = s.bench.number("g", with_arguments, "liby.so");
    for (const std::uint64_t end : {10, 40, 30, 50}) {
        s.bench.tell(call(end == 30 ? g : f, 1'000 + end, 0, end));
    }
    CHECK(durations(s.document()) == std::vector<std::uint64_t>{1'050, 1'040, 1'030});
    CHECK(durations(s.document({{"function", "g"}})) == std::vector<std::uint64_t>{1'030});
    CHECK(durations(s.document({{"library", "libx.so.1"}})) ==
          std::vector<std::uint64_t>{1'050, 1'040});
    CHECK(durations(s.document({{"pid", "42"}, {"comm", "python"}})).size() == 3);
    CHECK(durations(s.document({{"pid", "43"}})).empty());
    CHECK(durations(s.document({{"comm", "pyt"}})).empty());
    const Json limited = s.document({{"limit", "1"}});
    CHECK(durations(limited) == std::vector<std::uint64_t>{1'050});
    CHECK(limited["slow_calls_left_out"] == 2);
    CHECK(limited["truncated"] == true);
    CHECK(s.document({{"limit", "0"}})["slow_calls_left_out"] == 3);
    const auto problem = [&](const DocumentParameters &parameters) {
        const auto written = slow_calls_document(s.calls.list()).write(parameters);
        REQUIRE_FALSE(written);
        return written.error().message;
    };
    CHECK(problem({{"pid", "0"}}) == "pid must be a number from 1 to 4294967295, not \"0\"");
    CHECK(problem({{"limit", "x"}}) == "limit must be a number from 0 to 4294967295, not \"x\"");
    CHECK(problem({{"functions", "x"}}) ==
          "\"functions\" is no parameter of this page: those are function, library, comm, pid and "
          "limit");
    SlowBench nothing({.keep = 0, .log_per_second = 0});
    nothing.bench.tell(call(nothing.bench.number("f", with_arguments), 2'000));
    CHECK(nothing.document()["slow_calls"].empty());
    CHECK(nothing.completed.size() == 1);
}

TEST_CASE("a document has its limit, and says what it leaves out") {
    std::vector<SlowCall> all(1'000);
    const auto stack = std::make_shared<const std::vector<symbols::Frame>>(
        127, symbols::Frame{std::string(200, 'f'), std::string(255, 'm'), 1});
    const auto function = std::make_shared<const FuncFunction>();
    for (SlowCall &call : all) {
        call.function = function;
        call.stack = stack;
    }
    const auto written = slow_calls_document(all).write({});
    REQUIRE(written);
    CHECK(written->text.size() <= max_slow_calls_bytes);
    const Json document = Json::parse(written->text);
    CHECK(document["slow_calls"].size() > 100);
    CHECK(document["slow_calls"].size() + document["slow_calls_left_out"].get<std::size_t>() ==
          1'000);
    CHECK(document["truncated"] == true);
}

TEST_CASE("each slow call is a line in the log, up to so many a second") {
    const CaughtLog log;
    SlowBench s({.keep = 3, .log_per_second = 2});
    const auto f = s.bench.number("f", with_arguments);
    for (int i = 0; i < 5; i++) {
        s.bench.tell(call(f, 2'000'000'000, 3));
    }
    CHECK(s.calls.not_logged() == 3);
    s.calls.tidy(s.now + 999ms);
    REQUIRE(log.lines().size() == 2);
    s.calls.tidy(s.now + 1s);
    s.calls.tidy(s.now + 2s);
    REQUIRE(log.lines().size() == 3);
    CHECK(log.lines()[2]["not_logged"] == 3);
    s.now += 2s;
    s.bench.tell(slow(call(f, 1'500'000'000, 3, 5'000)));
    s.answer(s.asked.at(0).ticket, "caller");
    REQUIRE(log.lines().size() == 4);
    const Json line = log.lines()[3];
    CHECK(line["msg"] == "slow call");
    CHECK(line["level"] == "INFO");
    CHECK(line["function"] == "f");
    CHECK(line["library"] == "libx.so.1");
    CHECK(line["duration_seconds"] == 1.5);
    CHECK(line["ended"] == "1970-01-01T00:00:00.000005000Z");
    CHECK(line["pid"] == 42);
    CHECK(line["comm"] == "python");
    CHECK(line["thread"] == "worker");
    CHECK(line["arguments"] == "3=0x30 1=0x10");
    CHECK(line["result"] == "0x3");
    CHECK(line["error"] == "3");
    CHECK(line["stack"] == "caller < main");
    CHECK(s.calls.not_logged() == 3);
}

TEST_CASE("each call can be told, with its arguments where they were sent") {
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    const auto g = s.bench.number("g", {.entry_only = true});
    s.bench.tell(call(f, 10));
    s.bench.tell(with(call(f, 2'000, 5)));
    s.bench.tell(entry(g));
    REQUIRE(s.all.size() == 3);
    Json plain = Json::parse(s.all[0]);
    CHECK(plain["event"] == "call");
    CHECK(plain["slow"] == false);
    CHECK(plain["arguments"].empty());
    CHECK(plain["error"].is_null());
    const Json expected = Json::parse(R"({
        "event": "call", "id": "42-0", "time": "1970-01-01T00:00:00.000002000Z", "function": "f",
        "library": "libx.so.1", "duration_seconds": 0.000002, "pid": 42, "tid": 42, "ppid": 41,
        "comm": "python", "container": "", "pod_uid": "", "arguments": {"3": "0x30", "1": "0x10"},
        "result": "0x5", "error": "5", "slow": true})");
    CHECK(Json::parse(s.all[1]) == expected);
    const Json begins = Json::parse(s.all[2]);
    CHECK(begins["function"] == "g");
    CHECK(begins["duration_seconds"].is_null());
    CHECK(begins["result"].is_null());
}

TEST_CASE("a call that begins is told with the id that it has at its end, and counts then") {
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    auto begins = with(call(f, 0, 0, 2'000));
    begins.call.head.type = FUNC_RECORD_BEGIN;
    s.bench.tell(begins);
    CHECK(s.bench.sum("function_calls_total") == 0);
    s.bench.tell(call(f, 500, 0, 2'500));
    CHECK(s.bench.sum("function_calls_total") == 1);
    CHECK(s.bench.aggregator->undecodable() == 0);
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
    s.bench.tell(broken);
    begins.call.function = 1'000;
    s.bench.tell(begins);
    CHECK(s.bench.aggregator->undecodable() == 2);
    CHECK(s.all.size() == 2);
}

TEST_CASE("a process that ended later than a round began is kept for its slow calls") {
    SlowBench s;
    const auto f = s.bench.number("f", with_arguments);
    s.bench.tell(exit_at(20 * second_ns));
    s.bench.aggregator->tidy(20s - 1ns);
    s.bench.tell(slow(call(f, 2'000)));
    s.answer(s.asked.at(0).ticket, "caller");
    CHECK(Json::parse(s.completed.at(0))["comm"] == "python");
    s.bench.aggregator->tidy(20s);
    s.bench.tell(call(f, 2'000));
    CHECK(Json::parse(s.completed.at(1))["comm"] == "unknown");
}
