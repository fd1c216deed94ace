// Answers of an exporter, and of what is none -> rates and sentences.
#include "exporter/cli/top/client/session.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exporter/base/version.h"
#include "exporter/probes/functions/report/functions_api.h"
#include "tests/unit/probes/driver_records.h"
#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace gpusnoop::top;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using gpusnoop::probes::ErrorKind;
using nlohmann::json;

namespace {

const probes::FunctionOptions slow_after_1ms = {.slow_threshold = 1ms,
                                                .errors = ErrorKind::nonzero};
const std::string address = "http://node:1";
const std::string exporter = "gpusnoop_exporter " + std::string(version());

std::string document_of(const FunctionsFixture &fixture, std::chrono::nanoseconds elapsed,
                        std::chrono::nanoseconds since = 1000s) {
    return functions_page(fixture.aggregator->snapshot(elapsed), {since, 0s},
                          {since + elapsed, elapsed})
        .write({})
        .value()
        .text;
}

Result<Answer> answer(std::string body, int status = 200) {
    return Answer{status, std::move(body)};
}

const top::Row &row_of(const Session &session, const std::string &function) {
    for (const top::Row &row : session.rows().value()) {
        if (row.key.function == function) {
            return row;
        }
    }
    FAIL("no row of " << function);
    return session.rows()->front();
}

std::string top_problem_of(const Result<Answer> &one) {
    Session session(address, Sort::calls);
    session.take(one);
    CHECK_FALSE(session.answers());
    CHECK_FALSE(session.rows());
    return session.problem();
}

}  // namespace

TEST_CASE("two answers are rates, also of what began between them") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f", slow_after_1ms);
    const auto begun = fixture.number("begun", {.entry_only = true}, "liby.so");
    fixture.tell(call(f, 300));
    Session session(address, Sort::calls);
    session.take(answer(document_of(fixture, 10s)));
    CHECK(session.problem().empty());
    CHECK_FALSE(session.rows());
    CHECK(session.head() == exporter + " at http://node:1, up 10s, 1 process");
    for (int i = 0; i < 8; i++) {
        fixture.tell(call(f, 2'000'000, i == 0 ? 1 : 0));
    }
    fixture.tell(of(43, 5, entry(begun)));
    session.take(answer(document_of(fixture, 14s)));
    REQUIRE(session.rows());
    CHECK(session.rows()->size() == 2);
    CHECK(session.rows()->front().key.function == "f");
    const FunctionRates &rates = row_of(session, "f").rates;
    CHECK(rates.calls == 2);
    CHECK(rates.errors == 0.25);
    CHECK(rates.slow_calls == 2);
    CHECK(rates.mean == 0.002);
    CHECK(rates.max == 0.002);
    CHECK(row_of(session, "begun").rates.calls == 0.25);
    CHECK(session.head() == exporter +
                                " at http://node:1, up 14s, 2 processes, 2 functions with "
                                "2.25 calls/s and 0.25 errors/s");
    const auto lines = table_lines(*session.rows(), 10);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] ==
          " calls/s    err/s   slow/s     mean      p50      p99      max  library    function");
    CHECK_THAT(lines[1], StartsWith("    2.00     0.25     2.00   2.00ms "));
    CHECK_THAT(lines[1], ContainsSubstring("2.00ms  libx.so.1  f"));
    CHECK(lines[2] ==
          "    0.25        -        -        -        -        -        -  liby.so    begun");
    CHECK(table_lines(*session.rows(), 1).size() == 2);
    // Too narrow for the function behind the others.
    const auto narrow = table_lines(*session.rows(), 10, 80);
    CHECK(narrow[0] ==
          "function calls/s    err/s   slow/s     mean      p50      p99      max  library   ");
    CHECK_THAT(narrow[1], StartsWith("f           2.00     0.25     2.00   2.00ms "));
    CHECK(table_lines(*session.rows(), 10, 90) == lines);
    // Nothing more: rates of 0, and no durations.
    session.take(answer(document_of(fixture, 16s)));
    CHECK(row_of(session, "f").rates.calls == 0);
    CHECK_FALSE(row_of(session, "f").rates.mean);
}

TEST_CASE("by process, each process has rows of its own, with its script and job") {
    const auto document = [](std::uint64_t calls_of_43, std::chrono::nanoseconds elapsed) {
        FunctionsFixture fixture;
        const auto f = fixture.number("f", slow_after_1ms);
        func_process_record trainer = process("python3");
        constexpr char arguments[] = "python3\0train.py";
        std::memcpy(trainer.details.arguments.head, arguments, sizeof(arguments));
        trainer.details.arguments.head_bytes = sizeof(arguments);
        trainer.details.arguments.total = sizeof(arguments);
        trainer.details.cgroup = cgroup_of({"system.slice", "slurmstepd.scope", "job_4711"});
        fixture.tell(trainer);
        fixture.tell(call(f, 300));
        fixture.tell(of(43, 5, process("other")));
        for (std::uint64_t i = 0; i < calls_of_43; i++) {
            fixture.tell(of(43, 5, call(f, 300)));
        }
        return functions_page(fixture.aggregator->snapshot(elapsed), {1000s, 0s},
                              {1000s + elapsed, elapsed})
            .write({{"by", "process"}})
            .value()
            .text;
    };
    Session session(address, Sort::calls);
    session.take(answer(document(3, 10s)));
    session.take(answer(document(7, 12s)));
    REQUIRE(session.rows());
    REQUIRE(session.rows()->size() == 2);
    CHECK(session.rows()->front().key.pid == 43);
    CHECK(session.rows()->front().rates.calls == 2);
    CHECK(session.rows()->back().process.script == "train.py");
    CHECK_THAT(session.head(), ContainsSubstring(", 2 processes, 1 function with 2.00 calls/s"));
    const auto lines = table_lines(*session.rows(), 10);
    REQUIRE(lines.size() == 3);
    CHECK_THAT(lines[0], ContainsSubstring("  library    process                       function"));
    CHECK_THAT(lines[1], ContainsSubstring("  libx.so.1  other 43                      f"));
    CHECK_THAT(lines[2], ContainsSubstring("  libx.so.1  python3 train.py 42 job 4711  f"));
    const auto narrow = table_lines(*session.rows(), 10, 80);
    CHECK_THAT(narrow[1], StartsWith("f        other 43                    2.00 "));
    CHECK_THAT(narrow[2], StartsWith("f        python3 train.py 42 job "));
    // Fewer calls than before: another process of the same id.
    session.take(answer(document(2, 14s)));
    REQUIRE(session.rows());
    CHECK(session.rows()->front().rates.calls == 1);
}

TEST_CASE("after a restart there are no rates until the next answer, and none below 0") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f");
    for (int i = 0; i < 5; i++) {
        fixture.tell(call(f));
    }
    Session session(address, Sort::calls);
    session.take(answer(document_of(fixture, 10s)));
    FunctionsFixture fresh;
    fresh.tell(call(fresh.number("f")));
    // Later than the answer before by its own clock: told by when the counting began.
    session.take(answer(document_of(fresh, 12s, 2000s)));
    CHECK_FALSE(session.rows());
    CHECK(session.answers());
    CHECK(session.problem() == "http://node:1 was restarted: its counters begin at 0");
    session.take(answer(document_of(fresh, 14s, 2000s)));
    CHECK(session.problem().empty());
    CHECK(row_of(session, "f").rates.calls == 0);
    // Numbers that go back, even where all else is the same.
    session.take(answer(document_of(FunctionsFixture(), 16s, 2000s)));
    CHECK(session.rows()->empty());
    session.take(answer(document_of(fixture, 18s, 2000s)));
    session.take(answer(document_of(fresh, 20s, 2000s)));
    CHECK_FALSE(session.rows());
    session.take(answer(document_of(fresh, 20s, 2000s)));  // no time has passed
    CHECK_FALSE(session.rows());
}

TEST_CASE("an exporter that goes away and comes back is measured over the gap") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f");
    Session session(address, Sort::calls);
    CHECK_FALSE(session.has_answered());
    CHECK(session.head() == "gpusnoop_exporter at http://node:1");
    session.take(answer(document_of(fixture, 10s)));
    session.take(fail("cannot reach it"));
    CHECK(session.problem() == "cannot reach it");
    CHECK(session.has_answered());
    CHECK_FALSE(session.answers());
    CHECK_FALSE(session.rows());
    for (int i = 0; i < 10; i++) {
        fixture.tell(call(f));
    }
    session.take(answer(document_of(fixture, 15s)));
    CHECK(session.problem().empty());
    CHECK(row_of(session, "f").rates.calls == 2);
}

TEST_CASE("what is no answer of an exporter is told in a sentence") {
    CHECK(top_problem_of(answer("Unauthorized", 401)) ==
          "http://node:1 needs a valid login: --login-file or --netrc");
    CHECK(top_problem_of(answer("nothing", 404)) ==
          "http://node:1 has no /api/v1/functions: it is not a gpusnoop_exporter, or an older one");
    CHECK(top_problem_of(answer("The probe \x1b[31mis off.\nmore", 503)) ==
          "http://node:1 answered 503: The probe \xEF\xBF\xBD[31mis off.");
    CHECK(top_problem_of(answer(std::string(1000, 'x'), 500)) ==
          "http://node:1 answered 500: " + std::string(320, 'x'));
    const std::string forbidden = top_problem_of(answer("Ask on the node itself.", 403));
    CHECK_THAT(forbidden, StartsWith("run this on the node itself: http://node:1 shows "));
    CHECK(forbidden.ends_with(" or --web.enable-api"));  // it is whole
    CHECK(top_problem_of(fail("cannot \x1b reach")) == "cannot \xEF\xBF\xBD reach");
    FunctionsFixture fixture;
    fixture.tell(call(fixture.number("f")));
    const json good = json::parse(document_of(fixture, 5s));
    Session session(address, Sort::calls);
    session.take(answer(good.dump()));
    CHECK(session.answers());
    const std::string no_document =
        "http://node:1: its answer is not a list of functions in this version's format";
    for (const std::string text : {"", "null", "[]", "{", "{}", "<html>", "\"\"", "\xFF"}) {
        CAPTURE(text);
        CHECK(top_problem_of(answer(text)) == no_document);
    }
    CHECK(top_problem_of(answer(std::string(100'000, '['))) == no_document);
    const std::vector<std::pair<std::string, json>> changes = {
        {"/version", 1},
        {"/since_seconds", "now"},
        {"/since_seconds", -1},
        {"/elapsed_seconds", 1e300},
        {"/elapsed_seconds", true},
        {"/processes", -1},
        {"/processes", 1.5},
        {"/bucket_bounds_seconds", json::array()},
        {"/bucket_bounds_seconds", {2, 1}},
        {"/bucket_bounds_seconds", {0, 1}},
        {"/bucket_bounds_seconds", json(std::vector<int>(2000, 1))},
        {"/functions", {{"f", 1}}},
        {"/functions", 3},
        {"/functions/0/library", nullptr},
        {"/functions/0/function", 3},
        {"/functions/0/calls", nullptr},
        {"/functions/0/calls", -3},
        {"/functions/0/errors", "1"},
        {"/functions/0/seconds", -0.5},
        {"/functions/0/seconds", 1e12},
        {"/functions/0/buckets", 1},
        {"/functions/0/buckets", {1}},
        {"/functions/0/buckets", {{1000, 1}}},
        {"/functions/0/buckets", {{1, -1}}},
        {"/left_out", {}}};
    for (const auto &[where, value] : changes) {
        CAPTURE(where, value);
        json wrong = good;
        wrong[json::json_pointer(where)] = value;
        CHECK(top_problem_of(answer(wrong.dump())) == no_document);
    }
}

TEST_CASE("names of functions cannot reach the terminal as commands") {
    FunctionsFixture fixture;
    const auto f = fixture.number("f\x1b]0;title\x07", {},
                                  "lib\xC2\x9B"
                                  "2J.so");
    Session session(address, Sort::calls);
    session.take(answer(document_of(fixture, 1s)));
    fixture.tell(call(f));
    json hostile = json::parse(document_of(fixture, 2s));
    hostile["version"] = "1\x1b[2J";
    session.take(answer(hostile.dump()));
    REQUIRE(session.rows());
    auto lines = table_lines(*session.rows(), 5);
    lines.push_back(session.head());
    for (const std::string &line : lines) {
        CHECK(line.find('\x1b') == std::string::npos);
        CHECK(line.find('\x07') == std::string::npos);
        CHECK(line.find("\xC2\x9B") == std::string::npos);
    }
    CHECK_THAT(lines[1], ContainsSubstring("lib\xEF\xBF\xBD"
                                           "2J.so  f\xEF\xBF\xBD]0;title\xEF\xBF\xBD"));
}

TEST_CASE("functions are sorted by what is asked for, then by name") {
    const auto row = [](const std::string &name, double calls, double busy, double slow,
                        double errors, std::optional<double> max) {
        return top::Row{{"lib", name},
                        {},
                        true,
                        true,
                        1,
                        {.calls = calls,
                         .errors = errors,
                         .slow_calls = slow,
                         .busy = busy,
                         .mean = max,
                         .p50 = max,
                         .p99 = max,
                         .max = max}};
    };
    std::vector<top::Row> rows = {row("d", 0, 0, 0, 0, {}),     row("c", 9, 1, 1, 1, 1),
                                  row("busy", 1, 9, 1, 1, 1),   row("slow", 1, 1, 9, 1, 1),
                                  row("errors", 1, 1, 1, 9, 1), row("max", 1, 1, 1, 1, 9),
                                  row("a", 0, 0, 0, 0, {})};
    for (const auto &[sort, first] : {std::pair(Sort::calls, "c"),
                                      {Sort::seconds, "busy"},
                                      {Sort::slow, "slow"},
                                      {Sort::errors, "errors"},
                                      {Sort::max, "max"}}) {
        sort_rows(rows, sort);
        CHECK(rows.front().key.function == first);
        CHECK(rows[5].key.function == "a");
        CHECK(rows[6].key.function == "d");
    }
}
