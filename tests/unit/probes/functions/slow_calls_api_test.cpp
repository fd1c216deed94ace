// The slow calls of named functions that are kept, and the document of them.
#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/frame/api/list_page.h"
#include "tests/unit/probes/functions/slow_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

std::vector<std::uint64_t> durations(const Json &document) {
    std::vector<std::uint64_t> values;
    for (const Json &call : document["slow_calls"]) {
        values.push_back(
            static_cast<std::uint64_t>(call["duration_seconds"].get<double>() * 1e9 + 0.5));
    }
    return values;
}

}  // namespace

TEST_CASE("the last slow calls are kept, and shown with the newest first") {
    SlowFixture s;
    const auto f = s.fixture.number("f", with_arguments);
    const auto g = s.fixture.number("g", with_arguments, "liby.so");
    for (const std::uint64_t end : {10, 40, 30, 50}) {
        s.fixture.tell(call(end == 30 ? g : f, 1'000 + end, 0, end));
    }
    CHECK(durations(s.document()) == std::vector<std::uint64_t>{1'050, 1'040, 1'030});
    CHECK(durations(s.document({{"function", "g"}})) == std::vector<std::uint64_t>{1'030});
    CHECK(durations(s.document({{"library", "libx.so.1"}})) ==
          std::vector<std::uint64_t>{1'050, 1'040});
    CHECK(durations(s.document({{"pid", "42"}, {"comm", "python"}})).size() == 3);
    CHECK(durations(s.document({{"pid", "43"}})).empty());
    CHECK(durations(s.document({{"comm", "pyt"}})).empty());
    CHECK(durations(s.document({{"comm", "pyt*"}, {"library", "liby*"}})).size() == 1);
    const Json limited = s.document({{"limit", "1"}});
    CHECK(durations(limited) == std::vector<std::uint64_t>{1'050});
    CHECK(limited["left_out"] == 2);
    CHECK(limited["truncated"] == true);
    CHECK(s.document({{"limit", "0"}})["left_out"] == 3);
    const auto problem = [&](const QueryParameters &parameters) {
        const auto written = slow_calls_page(s.calls.list()).write(parameters);
        REQUIRE_FALSE(written);
        return written.error().message;
    };
    CHECK(problem({{"pid", "0"}}) == "pid must be a number from 1 to 4294967295, not \"0\"");
    CHECK(problem({{"limit", "x"}}) == "limit must be a number from 0 to 4294967295, not \"x\"");
    CHECK(problem({{"functions", "x"}}) ==
          "\"functions\" is not a parameter of this page; it has function, library, pid, comm, "
          "script "
          "and limit");
    SlowFixture nothing({.keep = 0, .log_per_second = 0});
    nothing.fixture.tell(call(nothing.fixture.number("f", with_arguments), 2'000));
    CHECK(nothing.document()["slow_calls"].empty());
    CHECK(nothing.completed.size() == 1);
}

TEST_CASE("a document has its limit, and says what it leaves out", "[bulk]") {
    std::vector<SlowCall> all(1'000);
    const auto stack = std::make_shared<const std::vector<symbols::Frame>>(
        127, symbols::Frame{std::string(200, 'f'), std::string(255, 'm'), 1});
    const auto function = std::make_shared<const FunctionInfo>();
    for (SlowCall &call : all) {
        call.function = function;
        call.stack = stack;
    }
    const auto written = slow_calls_page(all).write({});
    REQUIRE(written);
    CHECK(written->text.size() <= max_list_page_bytes);
    const Json document = Json::parse(written->text);
    CHECK(document["slow_calls"].size() > 100);
    CHECK(document["slow_calls"].size() + document["left_out"].get<std::size_t>() == 1'000);
    CHECK(document["truncated"] == true);
}
