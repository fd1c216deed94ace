// What GPU processes and containers used until they ended, against the stand-ins' own account.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/json_lines.h"
#include "tests/harness/machine/cgroup.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/trace.h"
#include "truth_reader.h"

using namespace harness;
using Catch::Matchers::ContainsSubstring;
using ReportJson = nlohmann::json;

namespace {

const std::string reports_enabled = "host: {life: {enabled: true, keep: 1000}}\n";

Process reports_lives(std::vector<std::string> steps, const std::vector<std::string> &through = {},
                      const Process::Environment &environment = {}) {
    std::vector<std::string> command = through;
    command.push_back(standin("lives"));
    command.insert(command.end(), steps.begin(), steps.end());
    return Process(std::move(command), environment);
}

// The newest first.
std::vector<ReportJson> reports_of(const Exporter &exporter, const std::string &kind) {
    const HttpAnswer answer = http(exporter.port(), "/api/v1/exits");
    REQUIRE(answer.status == 200);
    std::vector<ReportJson> all;
    const ReportJson page = ReportJson::parse(answer.body);
    for (const ReportJson &report : page.at("reports")) {
        if (report.at("kind") == kind) {
            all.push_back(report);
        }
    }
    return all;
}

// Of the process, once it is there.
ReportJson report_of_process(const Exporter &exporter, pid_t pid) {
    ReportJson found;
    eventually("the report of " + std::to_string(pid), [&] {
        for (const ReportJson &report : reports_of(exporter, "process")) {
            found = report.at("pid") == pid ? report : found;
        }
        return !found.is_null();
    });
    return found;
}

ReportJson report_of_owner(const Exporter &exporter, const std::string &kind,
                           const std::string &member, const std::string &value) {
    ReportJson found;
    eventually("the report of " + kind + " " + value, [&] {
        for (const ReportJson &report : reports_of(exporter, kind)) {
            found = report.at(member) == value ? report : found;
        }
        return !found.is_null();
    });
    return found;
}

std::uint64_t reports_copied(const truth::TruthSnapshot &truth, truth::CopyKind kind) {
    std::uint64_t bytes = 0;
    for (const auto mode :
         {truth::CopyMode::sync, truth::CopyMode::async, truth::CopyMode::graph}) {
        bytes += truth.of(kind, mode).bytes;
    }
    return bytes;
}

std::uint64_t reports_bytes(const ReportJson &report, const std::string &kind) {
    return report.at("copied_bytes").value(kind, std::uint64_t{0});
}

// One whose directory can be made here; nothing: the test cannot run.
std::optional<bool> reports_hierarchy() {
    for (const bool is_v2 : {false, true}) {
        if (!mounted(is_v2).empty()) {
            return is_v2;
        }
    }
    return std::nullopt;
}

void reports_go(const Process &process, int next = 0) {
    process.signal(SIGUSR1);
    if (next > 0) {
        process.wait_for_output("waiting " + std::to_string(next));
    }
}

}  // namespace

TEST_CASE("the report of a process is the stand-in's own account",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const GpuNode node(1);
    const TemporaryDirectory directory;
    const std::string sink = directory.path() / "reports.jsonl";
    const Exporter exporter(attached_by(mode) + node.config() +
                            "host: {life: {enabled: true, keep: 1000}, time: {enabled: true}}\n" +
                            "in_flight: {min_age: 1s}\n" + own_groups(mode) +
                            "    allocations:\n      libraries: [\"libcudart.so*\"]\n"
                            "      functions: [{symbol: cudaMalloc, slow_threshold: 1ns}]\n"
                            "sinks: [{type: file, path: " +
                            sink + ", events: job_reports}]\n");
    const Process holder = reports_lives({"name", "holder", "wait"});
    eventually("both probes to attach to the runtime",
               [&] { return exporter.times_attached_to(standin("12/libcudart.so.12")) >= 2; });
    if (mode != "perf") {  // which attaches to the runtime alone
        exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    }
    const TemporaryDirectory truths;
    Process process(
        {standin("workload"), "--iterations", "60", "--leak", "7", "--name", "reported"},
        {{"STANDIN_TRUTH_DIR", truths.path().string()}});
    const pid_t pid = process.pid();
    CHECK(process.wait() == 0);
    const truth::TruthSnapshot truth = truth_of(truths.path(), "reported");
    const ReportJson report = report_of_process(exporter, pid);
    INFO(report.dump(2));
    CHECK(report.at("comm") == "reported");
    CHECK(report.at("lower_bounds").empty());
    CHECK(report.at("causes") == ReportJson({{"0", 1}}));
    CHECK(report.at("launches") == truth.all_launches());
    CHECK(reports_bytes(report, "h2d") == reports_copied(truth, truth::CopyKind::h2d));
    CHECK(reports_bytes(report, "d2h") == reports_copied(truth, truth::CopyKind::d2h));
    CHECK(reports_bytes(report, "d2d") == reports_copied(truth, truth::CopyKind::d2d));
    const ReportJson &gpu = report.at("gpus").at("0");
    CHECK(gpu.at("peak_bytes") == truth.held[0].peak_bytes);
    CHECK(gpu.at("unfreed_bytes") == truth.held[0].bytes);
    CHECK(gpu.at("mean_bytes") > 0);
    CHECK(gpu.at("mean_bytes") < gpu.at("peak_bytes"));
    const Page page = exporter.scrape();
    CHECK(report.at("errors") ==
          page.sum("gpusnoop_cuda_api_errors_total", {{"comm", "reported"}}));
    CHECK(report.at("gpu_waited_seconds").is_number());
    CHECK(report.at("slow_calls") == truth.calls("cudaMalloc"));
    CHECK(report.at("hanging_calls") == 0);
    CHECK(report.at("lasted_seconds") > 0);
    exporter.wait_for_log("a job has ended");
    eventually("the sink to have the report", [&] {
        const auto lines = json_lines_of_file(sink);
        return std::ranges::any_of(lines, [&](const ReportJson &line) {
            return line.at("event") == "job_report" && line.at("pid") == pid &&
                   line.at("launches") == report.at("launches");
        });
    });

    // One that hangs and is killed.
    Process hangs = reports_lives({"name", "hangs", "allocate", "4096", "hang",
                                   "cudaDeviceSynchronize", "rest", "1100", "wait"});
    hangs.wait_for_output("waiting 1");
    hangs.signal(SIGKILL);
    const pid_t of_hangs = hangs.pid();
    CHECK(hangs.wait() == 128 + SIGKILL);
    const ReportJson hung = report_of_process(exporter, of_hangs);
    INFO(hung.dump(2));
    CHECK(hung.at("causes") == ReportJson({{"SIGKILL", 1}}));
    CHECK(hung.at("hanging_calls") == 1);
    CHECK(hung.at("gpus").at("0").at("unfreed_bytes") == 4'096);
}

TEST_CASE("a container is reported when its cgroup is gone, with the peak of the sum", "[kernel]") {
    require_bpf();
    const auto is_v2 = reports_hierarchy();
    if (!is_v2) {
        missing("a mounted hierarchy of cgroups");
    }
    const GpuNode node(1);
    const Exporter exporter(reports_enabled + node.config());
    const Process holder = reports_lives({"name", "holder", "wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    const std::string id(64, 'e');
    {
        const Cgroup cgroup(mounted(*is_v2), "docker/" + id);
        // Two that overlap: together they hold 4500 bytes at most, at one moment.
        Process first = reports_lives({"name", "first", "allocate", "1000", "wait", "allocate",
                                       "3000", "free", "wait", "exit", "0"},
                                      cgroup.enter());
        first.wait_for_output("waiting 1");
        Process second = reports_lives(
            {"name", "second", "allocate", "500", "call", "cudaMemcpy", "wait", "exit", "3"},
            cgroup.enter());
        second.wait_for_output("waiting 1");
        reports_go(first, 2);
        reports_go(second);
        CHECK(second.wait() == 3);
        reports_go(first);
        CHECK(first.wait() == 0);
        // And one after them.
        Process third = reports_lives({"name", "third", "allocate", "2000", "call", "cudaMemcpy",
                                       "call", "cudaMemset", "call", "cudaMemcpy", "exit", "0"},
                                      cgroup.enter());
        CHECK(third.wait() == 0);
        const ReportJson of_first = report_of_process(exporter, first.pid());
        INFO(of_first.dump(2));
        CHECK(of_first.at("container_id") == id);
        CHECK(of_first.at("gpus").at("0").at("peak_bytes") == 4'000);
        CHECK(of_first.at("gpus").at("0").at("unfreed_bytes") == 3'000);
        CHECK(report_of_process(exporter, second.pid()).at("causes") == ReportJson({{"3", 1}}));
        CHECK(reports_bytes(report_of_process(exporter, third.pid()), "h2d") == 32);
        CHECK(reports_of(exporter, "container").empty());  // its cgroup is there
    }
    const ReportJson report = report_of_owner(exporter, "container", "container_id", id);
    INFO(report.dump(2));
    CHECK(report.at("pid").is_null());
    CHECK(report.at("processes") == 3);
    CHECK(report.at("gpus").at("0").at("peak_bytes") == 4'500);
    CHECK(report.at("gpus").at("0").at("unfreed_bytes") == 5'500);
    CHECK(report.at("gpus").at("0").at("mean_bytes") < 4'500);
    CHECK(report.at("launches") == 0);
    CHECK(reports_bytes(report, "h2d") == 48);
    CHECK(report.at("errors") == 0);
    CHECK(report.at("gpu_waited_seconds").is_null());  // these two probes are off
    CHECK(report.at("slow_calls").is_null());
    CHECK(report.at("causes") == ReportJson({{"0", 2}, {"3", 1}}));
    CHECK(report.at("lower_bounds").empty());
    CHECK(report.at("summary").get<std::string>().starts_with("container eeeeeeeeeeee lasted "));
    CHECK_THAT(http(exporter.port(), "/").body, ContainsSubstring("<td>container eeeeeeeeeeee "));
    CHECK(reports_of(exporter, "container").size() == 1);
}

TEST_CASE("what an exporter did not see of a step makes its numbers lower bounds", "[kernel]") {
    require_bpf();
    const auto is_v2 = reports_hierarchy();
    if (!is_v2) {
        missing("a mounted hierarchy of cgroups");
    }
    const GpuNode node(1);
    std::optional<Exporter> exporter;
    {
        const Cgroup cgroup(mounted(*is_v2),
                            *is_v2 ? "system.slice/slurmstepd.scope/job_31/step_2/user/task_0"
                                   : "slurm/uid_0/job_31/step_2/task_0");
        Process process = reports_lives(
            {"name", "older", "allocate", "1000", "wait", "allocate", "100", "exit", "0"},
            cgroup.enter());
        process.wait_for_output("waiting 1");
        exporter.emplace(reports_enabled + node.config());
        exporter->wait_until_attached_to(standin("12/libcudart.so.12"));
        exporter->wait_until_attached_to(standin("driver/libcuda.so.1"));
        reports_go(process);
        CHECK(process.wait() == 0);
        const ReportJson report = report_of_process(*exporter, process.pid());
        INFO(report.dump(2));
        CHECK(report.at("slurm_step_id") == "2");
        const auto &bounds = report.at("lower_bounds");
        for (const char *const member : {"gpus", "launches", "copied_bytes", "errors"}) {
            CAPTURE(member);
            CHECK(std::ranges::find(bounds, ReportJson(member)) != bounds.end());
        }
        CHECK_THAT(report.at("summary").get<std::string>(), ContainsSubstring("peak \u2265 "));
    }
    const ReportJson report = report_of_owner(*exporter, "slurm_step", "slurm_job_id", "31");
    INFO(report.dump(2));
    CHECK(report.at("slurm_step_id") == "2");
    CHECK(report.at("processes") == 1);
    CHECK(std::ranges::find(report.at("lower_bounds"), ReportJson("gpus")) !=
          report.at("lower_bounds").end());
}

TEST_CASE("a trace of ends has the reports of GPU processes", "[kernel]") {
    require_bpf();
    const Process holder = reports_lives({"name", "holder", "wait"});
    holder.wait_for_output("waiting 1");
    Trace trace("exit", "", {});
    Process process = reports_lives({"name", "traced", "allocate", "64", "call", "cudaMemcpy",
                                     "call", "cudaMemcpy", "exits", "2", "1", "exit", "3"});
    CHECK(process.wait() == 3);
    const auto ends = [&] {
        std::vector<ReportJson> lines = trace.calls();
        std::erase_if(lines, [](const ReportJson &line) { return line.at("comm") != "traced"; });
        return lines;
    };
    eventually("both ends", [&] { return ends().size() == 2; });
    CHECK(ends()[0].at("report").is_null());  // a child's
    const std::string report = ends()[1].at("report");
    CAPTURE(report);
    CHECK_THAT(report, ContainsSubstring("traced (pid " + std::to_string(process.pid()) + ")"));
    CHECK_THAT(report, ContainsSubstring("peak 64 B"));
    CHECK_THAT(report, ContainsSubstring("unfreed 64 B"));
    CHECK_THAT(report, ContainsSubstring("0 launches;"));
    CHECK_THAT(report, ContainsSubstring("h2d 32 B"));
    CHECK_THAT(report, ContainsSubstring("end: exit code 3"));
    (void)trace.finish();
}
