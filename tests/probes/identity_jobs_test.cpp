// Two jobs of one program on a node: the same rows twice.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <initializer_list>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/probes/identity.h"

using namespace harness;

namespace {

// The names on a page of which this program has rows, each with the rows' labels in each Slurm job,
// but for the job and the process.
using RowsByJob = std::map<std::string, std::set<Labels>>;
std::map<std::string, RowsByJob> rows_of(const Labels &program, const std::string &text) {
    std::map<std::string, RowsByJob> rows;
    const Page page(text);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::string name = line.substr(0, line.find_first_of("{ "));
        if (line.starts_with('#') || rows.contains(name)) {
            continue;
        }
        for (const Sample &sample : page.samples(name, program)) {
            Labels labels = sample.labels;
            const std::string job = labels["slurm_job_id"];
            labels.erase("slurm_job_id");
            labels.erase("pid");
            rows[name][job].insert(labels);
        }
    }
    return rows;
}

}  // namespace

TEST_CASE("two Slurm jobs of one program are two rows in every family") {
    require_bpf();
    const bool is_v1 = !mounted(false).empty();
    if (!is_v1 && mounted(true).empty()) {
        missing("a mounted hierarchy of cgroups");
    }
    const Bench bench("auto");
    const std::string script = bench.script("twin.py");
    const std::vector<std::string> jobs = {"21", "22"};
    std::deque<Cgroup> cgroups;
    std::vector<Process> processes;
    for (const std::string &job : jobs) {
        const std::string path =
            is_v1 ? "slurm/uid_1000/job_" + job + "/step_0/task_0"
                  : "system.slice/slurmstepd.scope/job_" + job + "/step_0/user/task_0";
        const auto enter = cgroups.emplace_back(mounted(!is_v1), path).enter();
        processes.push_back(bench.start("twin" + job,
                                        {standin("workload"), "--everything", "--failures",
                                         "--iterations", "20", "--name", "twin", "--hold"},
                                        enter));
        processes.push_back(bench.start("script" + job, {python, script, "9", "hold"}, enter));
        processes.at(processes.size() - 2).wait_for_output("holding");
        processes.back().wait_for_output("worked");
    }
    for (const std::string &job : jobs) {
        bench.check(labels_of("twin.py", "", job), bench.truth_of_all("script" + job), 9);
        const truth::TruthSnapshot truth = bench.truth_of_all("twin" + job);
        const Labels of = {{"comm", "twin"}, {"slurm_job_id", job}};
        check_counters_of(bench.exporter.wait_for("gpusnoop_cuda_kernel_launches_total", of,
                                                  static_cast<double>(truth.launches)),
                          truth, of);
    }

    // Stacks get their names later.
    std::map<std::string, RowsByJob> rows;
    const auto are_equal = [&](const Labels &program) {
        rows = rows_of(program, http(bench.exporter.port(), "/metrics").body);
        return std::ranges::all_of(rows, [](const auto &of_name) {
            const RowsByJob &by_job = of_name.second;
            return by_job.size() == 2 && by_job.contains("21") && by_job.contains("22") &&
                   by_job.at("21") == by_job.at("22");
        });
    };
    const auto check_names = [&](std::initializer_list<std::string> names) {
        for (const std::string &name : names) {
            INFO(name);
            CHECK(rows.contains("gpusnoop_" + name));
        }
    };
    eventually("the jobs of a CUDA program to have the same rows",
               [&] { return are_equal({{"comm", "twin"}}); });
    check_names({"cuda_memory_allocations_total", "cuda_memory_outstanding_bytes",
                 "cuda_memory_site_outstanding_bytes", "cuda_memcpy_total",
                 "cuda_memcpy_size_bytes_count", "cuda_memset_total", "cuda_kernel_launches_total",
                 "cuda_kernel_launch_duration_seconds_count", "cuda_api_errors_total",
                 "process_info"});
    eventually("the jobs of a script to have the same rows",
               [&] { return are_equal({{"script", "twin.py"}}); });
    check_names({"cuda_memory_allocations_total", "process_info", "function_calls_total",
                 "function_duration_seconds_count", "syscalls_total",
                 "syscall_duration_seconds_count"});
    for (Process &process : processes) {
        process.signal(SIGKILL);
        (void)process.wait();
    }
}
