// What a report says, to people and to programs.
#include "exporter/probes/host_life/reports/report.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "exporter/probes/host_life/exits.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

JobReport whole_report() {
    JobReport report{.ended = 1s, .lasted = 7'500s + 250ms, .pid = 7};
    report.names.comm = "python3";
    report.names.script = "train.py";
    report.gpus = {{"0", {.peak_bytes = 3U << 30U, .mean_bytes = 1U << 30U}},
                   {"1", {.peak_bytes = 2'048, .mean_bytes = 512, .unfreed_bytes = 1'024}}};
    report.launches = 1'234'567;
    report.copied_bytes = {{"d2h", 1'024}, {"h2d", 2'048}};
    report.errors = 1;
    report.waited = 65s;
    report.slow_calls = 3;
    report.hanging_calls = 0;
    report.causes = {{"0", 1}};
    return report;
}

}  // namespace

TEST_CASE("a report is a sentence for people") {
    JobReport report = whole_report();
    CHECK(sentence_of(report) ==
          "train.py (pid 7) lasted 2h 5m; GPU 0: peak 3.00 GiB, mean 1.00 GiB; GPU 1: peak 2.00 "
          "KiB, mean 512 B, unfreed 1.00 KiB; 1,234,567 launches; copied d2h 1.00 KiB, h2d 2.00 "
          "KiB; 1 error, 3 slow and 0 hanging calls; the GPU waited 1m 5s for the host; end: "
          "exit code 0");
    report.at_least = {.lasted = true,
                       .memory = true,
                       .launches = true,
                       .calls = true,
                       .waited = true,
                       .slow = true};
    report.gpus.erase("0");
    CHECK(sentence_of(report) ==
          "train.py (pid 7) lasted ≥ 2h 5m; GPU 1: peak ≥ 2.00 KiB, mean ≥ 512 B, unfreed ≥ 1.00 "
          "KiB; ≥ 1,234,567 launches; copied d2h ≥ 1.00 KiB, h2d ≥ 2.00 KiB; ≥ 1 error, ≥ 3 slow "
          "and ≥ 0 hanging calls; the GPU waited ≥ 1m 5s for the host; end: exit code 0");
    JobReport unknown{.lasted = 3s, .pid = 8};
    unknown.names.comm = "a.out";
    CHECK(
        sentence_of(unknown) ==
        "a.out (pid 8) lasted 3.00s; no GPU memory; 0 launches; copied 0 B; 0 errors, unknown slow "
        "and unknown hanging calls; unknown how long the GPU waited for the host; end: "
        "unknown");
    JobReport step{.kind = JobReport::Kind::slurm_step, .lasted = 3s};
    step.names.slurm_job_id = "4711";
    step.slurm_step_id = "0";
    step.processes = 8;
    step.causes = {{"0", 7}, {"oom_kill", 1}};
    const std::string text = sentence_of(step);
    CHECK(text.starts_with("step 0 of Slurm job 4711 lasted 3.00s, 8 GPU processes; "));
    CHECK(text.ends_with("; end: exit code 0 (7), oom_kill (1)"));
    JobReport container{.kind = JobReport::Kind::container};
    container.names.container = std::string(64, 'c');
    CHECK(sentence_of(container).starts_with("container cccccccccccc lasted 0ns, 1 GPU process; "));
}

TEST_CASE("a report is an object for programs") {
    JobReport report = whole_report();
    const auto json = nlohmann::json::parse(job_report_line(report));
    CHECK(json.at("event") == "job_report");
    CHECK(json.at("kind") == "process");
    CHECK(json.at("time") == "1970-01-01T00:00:01.000000000Z");
    CHECK(json.at("pid") == 7);
    CHECK(json.at("script") == "train.py");
    CHECK(json.at("lasted_seconds") == 7500.25);
    CHECK(json.at("gpus").at("0").at("peak_bytes") == 3U << 30U);
    CHECK(json.at("gpus").at("1").at("mean_bytes") == 512);
    CHECK(json.at("gpus").at("1").at("unfreed_bytes") == 1'024);
    CHECK(json.at("launches") == 1'234'567);
    CHECK(json.at("copied_bytes").at("h2d") == 2'048);
    CHECK(json.at("errors") == 1);
    CHECK(json.at("gpu_waited_seconds") == 65.0);
    CHECK(json.at("slow_calls") == 3);
    CHECK(json.at("hanging_calls") == 0);
    CHECK(json.at("causes").at("0") == 1);
    CHECK(json.at("lower_bounds") == nlohmann::json::array());
    CHECK(json.at("summary") == sentence_of(report));

    report.kind = JobReport::Kind::container;
    report.pid = 0;
    report.waited.reset();
    report.slow_calls.reset();
    report.hanging_calls.reset();
    report.at_least.memory = report.at_least.calls = true;
    const auto other = to_json(report);
    CHECK_FALSE(other.contains("event"));
    CHECK(other.at("pid").is_null());
    CHECK(other.at("gpu_waited_seconds").is_null());
    CHECK(other.at("slow_calls").is_null());
    CHECK(other.at("hanging_calls").is_null());
    CHECK(other.at("lower_bounds") == nlohmann::json({"gpus", "copied_bytes", "errors"}));
}

TEST_CASE("the page of ends has reports, selected by cause and process") {
    JobReport other{.ended = 2s, .pid = 9};
    other.causes = {{"SIGKILL", 1}};
    const ApiPage page = exits_page({}, {other, whole_report()}, nullptr);
    const auto pids = [&](const QueryParameters &query) {
        std::string all;
        const auto json = nlohmann::json::parse(page.write(query)->text);
        for (const auto &report : json.at("reports")) {
            all += report.at("pid").dump() + " ";
        }
        return all;
    };
    CHECK(pids({}) == "9 7 ");
    CHECK(pids({{"cause", "SIG*"}}) == "9 ");
    CHECK(pids({{"script", "train*"}}) == "7 ");
    CHECK(pids({{"limit", "1"}}) == "9 ");
    CHECK(nlohmann::json::parse(page.write({{"limit", "1"}})->text).at("left_out") == 1);
}
