// What `why` says of two answers of /api/v1/threads.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exporter/cli/why/report.h"

using namespace gpusnoop;
using namespace gpusnoop::why;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

const Json no_workers = {
    {"processes", 0}, {"seconds", Json::object()}, {"file_waits", Json::object()}};

Json process(std::uint32_t pid, const std::string &comm, const Json &seconds) {
    return {{"id", std::to_string(pid) + "-5"},
            {"pid", pid},
            {"comm", comm},
            {"script", ""},
            {"container_id", ""},
            {"slurm_job_id", ""},
            {"user", ""},
            {"pod_uid", ""},
            {"threads", 1},
            {"wall_seconds", 1.0},
            {"seconds", seconds},
            {"launch_gaps", Json::object()},
            {"workers", no_workers},
            {"call", nullptr}};
}

Times times_of(double elapsed, const std::vector<Json> &processes) {
    const Json document = {{"elapsed_seconds", elapsed},
                           {"processes", processes},
                           {"threads", Json::array()},
                           {"left_out", 0},
                           {"truncated", false}};
    const auto parsed = parse_times(document.dump());
    REQUIRE(parsed);
    return *parsed;
}

std::string text(const Times &before, const Times &now, const std::string &comm = "*") {
    return report_text(*report_of(before, now, comm));
}

}  // namespace

TEST_CASE("why explains what happened between two answers, with the conclusion first") {
    Json train = process(42, "python3", {{"host", {{"running", 100.0}, {"futex", 5.0}}}});
    train["script"] = "train.py";
    train["slurm_job_id"] = "4711";
    train["launch_gaps"]["device"] = {
        {"gaps", 100}, {"seconds", 50.0}, {"states", {{"running", 50.0}}}};
    const Times before = times_of(1'000, {train});
    train["seconds"] = {
        {"host",
         {{"running", 102.2}, {"futex", 5.0}, {"pipe", 2.3}, {"file", 0.3}, {"sleep", 0.04}}},
        {"wait", {{"running", 2.0}, {"poll", 1.9}}},
        {"memory", {{"running", 0.1}}},
        {"launch", {{"runnable", 0.26}}},
        {"copy", {{"throttled", 0.9}}}};
    train["launch_gaps"] = {
        {"device",
         {{"gaps", 119},
          {"seconds", 52.6},
          {"states", {{"running", 50.25}, {"pipe", 52.1 - 50.25}}}}},
        {"stream", {{"gaps", 1}, {"seconds", 0.1}, {"states", {{"cuda_call", 0.1}}}}},
        {"none", {{"gaps", 9}, {"seconds", 5.0}, {"states", {{"file", 5.0}}}}}};
    const Times now = times_of(1'010, {train});
    CHECK(text(before, now) ==
          R"(train.py (pid 42, Slurm job 4711), 10.0 s of its launching thread:
Data is the limit: the launching thread waited for other processes 23 % of the time, mostly in the state pipe. The host kept the GPU or a stream waiting at least 27 % of the time, mostly in the state pipe.
)" + std::string(probes::advice_of(probes::HostLimit::data)) +
              R"(
  waiting for the GPU                 3.9 s   39 %   2.0 s running (it spins), 1.9 s poll
  running on the host                 2.2 s   22 %
  blocked on the host                 2.6 s   26 %   2.3 s pipe (another process: a data loader), 0.3 s file (storage)
  inside CUDA calls that allocate     0.1 s    1 %   0.1 s running
  ready or running, no CPU            1.2 s   12 %   0.9 s throttled (by the CPU limit of its cgroup), 0.3 s runnable (others have the CPUs)
  The GPU had no work from it for 2.6 s, in 19 gaps: 71 % pipe, 10 % running, 19 % in short gaps.
  A stream had no work from it for 0.1 s, in 1 gap: 100 % cuda_call.
)");
}

TEST_CASE("why has the worst processes first, and only the ones that it is asked for") {
    const Times before = times_of(1, {process(1, "a", {{"wait", {{"poll", 1.0}}}}),
                                      process(3, "ended", {{"wait", {{"poll", 1.0}}}})});
    const Times now = times_of(2, {process(1, "a", {{"wait", {{"poll", 1.25}}}}),
                                   process(2, "b", {{"host", {{"sleep", 0.5}}}}),
                                   process(3, "ended", {{"wait", {{"poll", 1.0}}}})});
    const auto report = report_of(before, now, "*");
    REQUIRE(report);
    REQUIRE(report->findings.size() == 2);
    CHECK(report->findings[0].process.pid == 1);
    CHECK(report->findings[1].process.pid == 2);  // new, and idle
    CHECK_THAT(report_text(*report),
               ContainsSubstring("a (pid 1), 0.25 s of its launching thread:\n"
                                 "The GPU is the limit: "));
    CHECK(report_of(before, now, "b*")->findings.size() == 1);
    CHECK(report_of(before, now, "c")->findings.empty());
    CHECK(text(before, now, "ended") ==
          "No running process has launched GPU work since the exporter started.\n");
}

TEST_CASE("why finds programs by their script, too") {
    Json train = process(7, "python3", {{"wait", {{"poll", 1.0}}}});
    train["script"] = "train.py";
    const Times now = times_of(2, {train, process(8, "python3", {{"wait", {{"poll", 1.0}}}})});
    const auto found = report_of(times_of(1, {}), now, "train*");
    REQUIRE(found->findings.size() == 1);
    CHECK(found->findings[0].process.pid == 7);
    CHECK_FALSE(found->is_of_all);
    CHECK(report_of(times_of(1, {}), now, "python3")->findings.size() == 2);
}

TEST_CASE("why shows the worst process of each program, the worst programs, and no short ones") {
    std::vector<Json> processes;
    const auto add = [&](std::uint32_t pid, const std::string &comm, const Json &seconds) {
        processes.push_back(process(pid, comm, seconds));
    };
    for (std::uint32_t i = 1; i <= 7; i++) {
        add(i, "ranks", {{"wait", {{"poll", 10.0}}}});
    }
    add(8, "ranks", {{"host", {{"throttled", 6.0}}}, {"wait", {{"poll", 4.0}}}});
    add(9, "waits", {{"wait", {{"poll", 10.0}}}});
    for (std::uint32_t i = 0; i < 9; i++) {
        add(20 + i, "runs" + std::to_string(i), {{"host", {{"running", 1.0 + i}}}});
    }
    for (std::uint32_t i = 0; i < 300; i++) {
        add(1'000 + i, "short" + std::to_string(i), {{"host", {{"running", 0.9}}}});
    }
    add(2'000, "brief", {{"host", {{"running", 0.5}}}});
    add(2'001, "brief", {{"host", {{"running", 0.5}}}});
    Json stuck = process(3'000, "stuck", {{"wait", {{"running", 10.0}}}});
    stuck["call"] = {{"function", "cudaFree"}, {"age_seconds", 30.0}};
    processes.push_back(stuck);
    const auto report = report_of(times_of(1, {}), times_of(11, processes), "*");
    const std::string said = report_text(*report);
    CHECK(
        said.starts_with("stuck (pid 3000), 10.0 s of its launching thread:\nThe program hangs: "));
    CHECK_THAT(said,
               ContainsSubstring("\nranks (pid 8, the worst of 8 processes), 10.0 s of its ") &&
                   ContainsSubstring("\n  Its 8 processes: 1 throttled, 7 gpu.\n"));
    const auto at = [&](const std::string &what) { return said.find("\n" + what); };
    CHECK(at("runs8 (pid 28)") < at("runs6 (pid 26)"));
    CHECK(at("runs6 (pid 26)") < at("ranks (pid 8"));
    CHECK(at("ranks (pid 8") < at("runs4 (pid 24)"));
    CHECK(at("runs1 (pid 21)") != std::string::npos);
    CHECK(at("runs0 (pid 20)") == std::string::npos);  // the tenth of those that are limited
    CHECK(at("waits (pid 9)") == std::string::npos);
    CHECK(said.find("short") == std::string::npos);
    CHECK(
        said.ends_with("\nNot shown: 3 more programs, and 300 programs with less than 1.00 s of "
                       "launching threads. To see one of them, name it: --comm=GLOB or "
                       "--pid=N.\n"));
    CHECK(Json::parse(report_json(*report)).at("processes").size() == report->findings.size());
    // What is asked for is shown, however short.
    const auto asked = report_of(times_of(1, {}), times_of(11, processes), "short7");
    CHECK(report_text(*asked).starts_with("short7 (pid 1007), 0.90 s of its launching thread:\n"));
}

TEST_CASE("why leaves out what one launching thread waits for another one") {
    Json two = process(1, "a", {{"host", {{"futex", 1.0}, {"running", 1.0}}}});
    two["threads"] = 2;
    const std::string said = text(times_of(1, {}), times_of(2, {two}));
    CHECK_THAT(said, ContainsSubstring(
                         "a (pid 1), 1.00 s of its 2 launching threads:\nHost code is the limit"));
    CHECK_THAT(said, ContainsSubstring("running on the host                1.00 s  100 %\n"));
    CHECK_THAT(said, ContainsSubstring("blocked on the host                0.00 s    0 %\n"));
    CHECK(said.ends_with("  (plus 1.00 s in which one of them waited for another)\n"));
}

TEST_CASE("why has its numbers and the conclusion's key as JSON, too") {
    Json allocates = process(7, "a", {{"memory", {{"running", 2.0}}}});
    allocates["launch_gaps"]["device"] = {
        {"gaps", 2}, {"seconds", 0.5}, {"states", {{"cuda_call", 0.25}}}};
    const auto report = report_of(times_of(1, {}), times_of(3, {allocates}), "*");
    const std::string text = report_json(*report);
    CHECK(text.find('\n') == text.size() - 1);
    const Json object = Json::parse(text);
    CHECK(object.at("elapsed_seconds") == 2.0);
    const Json &one = object.at("processes").at(0);
    CHECK(one.at("pid") == 7);
    CHECK(one.at("comm") == "a");
    CHECK(one.at("conclusion") == "memory_calls");
    CHECK(one.at("share") == 1.0);
    CHECK(one.at("wall_seconds") == 2.0);
    CHECK(one.at("idle_seconds") == 0.0);
    CHECK(one.at("seconds") == Json{{"memory", {{"running", 2.0}}}});
    CHECK(one.at("starved_share") == 0.25);
    const Json gaps = {{"gaps", 2}, {"seconds", 0.5}, {"states", {{"cuda_call", 0.25}}}};
    CHECK(one.at("launch_gaps") == Json{{"device", gaps}});
    CHECK_THAT(one.at("sentence").get<std::string>(), ContainsSubstring("Allocations"));
    CHECK(Json::parse(report_json({.elapsed_ns = 1, .findings = {}})).at("processes").empty());
}

TEST_CASE("why says what the workers of a process wait for") {
    Json loads = process(7, "a", {{"host", {{"pipe", 1.0}}}});
    loads["workers"] = {{"processes", 1},
                        {"seconds", {{"file", 100.0}, {"futex", 1.0}}},
                        {"file_waits", {{"nfs", {{"waits", 1'000}, {"seconds", 100.0}}}}}};
    const Times before = times_of(1, {loads});
    loads["seconds"] = {{"host", {{"pipe", 11.0}}}};
    loads["workers"] = {{"processes", 8},
                        {"seconds",
                         {{"file", 148.8},
                          {"running", 9.6},
                          {"socket", 4.0},
                          {"pipe", 2.0},
                          {"futex", 500.0},
                          {"device", 0.1}}},
                        {"file_waits",
                         {{"nfs", {{"waits", 2'000}, {"seconds", 144.0}}},
                          {"unknown", {{"waits", 100}, {"seconds", 4.8}}}}}};
    const auto said = [&] { return text(before, times_of(11, {loads})); };
    CHECK_THAT(said(), Catch::Matchers::EndsWith(
                           "\n  Its 8 workers: 61 % file (mostly nfs, 44.0 ms each), 12 % running, "
                           "5 % socket.\n"));
    loads["workers"]["processes"] = 1;
    CHECK_THAT(said(), ContainsSubstring("  Its worker: 488 % file"));
    loads["workers"] = no_workers;
    CHECK_THAT(said(), !ContainsSubstring("worker:"));
    loads["workers"]["processes"] = 2;
    CHECK_THAT(said(), !ContainsSubstring("Its 2 workers"));
    loads["workers"] = {{"processes", 2}, {"seconds", {{"file", -1}}}};
    CHECK_FALSE(parse_times(Json{{"elapsed_seconds", 1}, {"processes", {loads}}}.dump()));
}

TEST_CASE("why names the call that hangs, and what to run next") {
    Json stuck = process(7, "a", {{"wait", {{"running", 10.0}}}});
    const Times before = times_of(10, {stuck});
    stuck["seconds"]["wait"]["running"] = 20.0;
    stuck["call"] = {{"function", "cudaDeviceSynchronize\x1b[2J"}, {"age_seconds", 98.2}};
    const Times now = times_of(20, {stuck});
    CHECK_THAT(text(before, now),
               ContainsSubstring(
                   "a (pid 7), 10.0 s of its launching thread:\nThe program hangs: the launching "
                   "thread has been in cudaDeviceSynchronize\uFFFD[2J for 1m 38s, ") &&
                   ContainsSubstring("\nRun gpusnoop_exporter trace --in-flight: "));
    const Json one = Json::parse(report_json(*report_of(before, now, "*"))).at("processes").at(0);
    CHECK(one.at("conclusion") == "hangs");
    CHECK(one.at("call").at("age_seconds") == 98.2);
    auto report = *report_of(before, now, "*");
    CHECK(has_hangs(report));
    const auto in_flight = [](const std::string &pid, const std::string &function) {
        return R"({"in_flight":[{"pid":)" + pid +
               R"(,"comm":"a","script":"","container_id":"","slurm_job_id":"","function":")" +
               function + R"(","site":"t.py:f:3\u001b < t.py:main:9"}]})";
    };
    // It may be the call of another process, another call, or no answer.
    for (const std::string &other : {in_flight("8", "cudaDeviceSynchronize\\u001b[2J"),
                                     in_flight("7", "cudaFree"), std::string("{")}) {
        add_sites(report, other);
        CHECK_THAT(report_text(report), !ContainsSubstring("It was called at"));
        CHECK(Json::parse(report_json(report)).at("processes").at(0).at("site").is_null());
    }
    add_sites(report, in_flight("7", "cudaDeviceSynchronize\\u001b[2J"));
    CHECK_THAT(
        report_text(report),
        ContainsSubstring(
            " since. It was called at t.py:f:3\uFFFD < t.py:main:9.\nRun gpusnoop_exporter"));
    stuck["call"]["age_seconds"] = -1;
    CHECK_FALSE(parse_times(Json{{"elapsed_seconds", 1}, {"processes", {stuck}}}.dump()));
}

TEST_CASE("why does not compare an exporter with the one before its restart") {
    const auto report = report_of(times_of(10, {}), times_of(1, {}), "*");
    REQUIRE_FALSE(report);
    CHECK_THAT(report.error().message, ContainsSubstring("restarted"));
}

TEST_CASE("why trusts no answer") {
    const Json good = {{"elapsed_seconds", 1.0},
                       {"processes", {process(1, "a\x1b[2J", {{"later", {{"state", 1.0}}}})}}};
    const auto parsed = parse_times(good.dump());
    REQUIRE(parsed);
    const auto &known = parsed->processes.at("1-5");
    CHECK(known.names.comm.find('\x1b') == std::string::npos);
    CHECK(known.times.cells.ns[HOST_other][HOST_STATE_other] ==
          1'000'000'000);  // of a later version
    for (const std::string other :
         {"", "[]", "{}", R"({"elapsed_seconds":1})", R"({"elapsed_seconds":-1,"processes":[]})",
          R"({"elapsed_seconds":1e300,"processes":[]})",
          R"({"elapsed_seconds":1,"processes":[{}]})"}) {
        CAPTURE(other);
        CHECK_FALSE(parse_times(other));
    }
    Json later = good;
    later["processes"][0]["launch_gaps"]["later"] = {
        {"gaps", 1}, {"seconds", 1.0}, {"states", {{"later", 1.0}}}};
    const auto gaps = parse_times(later.dump())->processes.at("1-5").times.gaps;
    CHECK(gaps.by_drain[HOST_DRAIN_none].state_ns[HOST_STATE_other] == 1'000'000'000);
    for (const Json &one :
         {Json(1), Json{{"gaps", -1}, {"seconds", 1.0}, {"states", Json::object()}},
          Json{{"gaps", 1}, {"seconds", 1.0}},
          Json{{"gaps", 1}, {"seconds", -1.0}, {"states", Json::object()}},
          Json{{"gaps", 1}, {"seconds", 1.0}, {"states", {{"pipe", "x"}}}}}) {
        later["processes"][0]["launch_gaps"] = {{"device", one}};
        CAPTURE(later.dump());
        CHECK_FALSE(parse_times(later.dump()));
    }
    for (const Json &seconds :
         {Json(1), Json{{"host", 1}}, Json{{"host", {{"futex", "x"}}}},
          Json{{"host", {{"futex", -1.0}}}}, Json{{"host", {{"futex", nullptr}}}}}) {
        Json bad = good;
        bad["processes"][0]["seconds"] = seconds;
        CAPTURE(bad.dump());
        CHECK_FALSE(parse_times(bad.dump()));
    }
}
