// Two jobs of one program on a node: the same rows twice.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
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
            // The kernel's table of stacks has no second place for a stack: where another one is, a
            // site is known by its caller only, and can have another name.
            labels.erase("site");
            rows[name][job].insert(labels);
        }
    }
    return rows;
}

// Rows of what was shortest or longest lately, or is open now, come and go for each job by itself.
bool is_of_now(const std::string &name) {
    return name.ends_with("_min_seconds") || name.ends_with("_max_seconds") ||
           name == "gpusnoop_calls_in_flight" || name == "gpusnoop_oldest_call_seconds";
}

// The rows that only one of the jobs has.
std::string rows_in_one(const RowsByJob &by_job) {
    std::string text;
    for (const auto &[job, rows] : by_job) {
        for (const Labels &row : rows) {
            if (std::ranges::all_of(by_job,
                                    [&](const auto &of) { return of.second.contains(row); })) {
                continue;
            }
            text += "\n" + job + ":";
            for (const auto &[label, value] : row) {
                text += " " + label + "=" + value;
            }
        }
    }
    return text;
}

// What is wrong with the rows of the program, or nothing: `names` must be there, each for both jobs
// and for nothing else, with the same rows in each family that keeps its rows.
std::string problem_of(const std::map<std::string, RowsByJob> &rows,
                       const std::vector<std::string> &names) {
    for (const std::string &name : names) {
        if (!rows.contains("gpusnoop_" + name) || rows.at("gpusnoop_" + name).size() != 2) {
            return name + " is not there for each job";
        }
    }
    for (const auto &[name, by_job] : rows) {
        const bool has_both = by_job.contains("21") && by_job.contains("22");
        if (by_job.size() > by_job.count("21") + by_job.count("22")) {
            return name + " has a row of no job";
        }
        if (!is_of_now(name) && (!has_both || by_job.at("21") != by_job.at("22"))) {
            return name + " differs between the jobs:" + rows_in_one(by_job);
        }
    }
    return "";
}

void check_rows(const Exporter &exporter, const Labels &program,
                const std::vector<std::string> &names) {
    // Stacks get their names later.
    const auto end = std::chrono::steady_clock::now() + patience;
    std::string problem;
    do {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        problem = problem_of(rows_of(program, http(exporter.port(), "/metrics").body), names);
    } while (!problem.empty() && std::chrono::steady_clock::now() < end);
    CHECK(problem == "");
}

}  // namespace

TEST_CASE("two Slurm jobs of one program are two rows in every family") {
    require_bpf();
    const bool is_v1 = !mounted(false).empty();
    if (!is_v1 && mounted(true).empty()) {
        missing("a mounted hierarchy of cgroups");
    }
    const Bench fixture("auto");
    const std::string script = fixture.script("twin.py");
    const std::vector<std::string> jobs = {"21", "22"};
    std::deque<Cgroup> cgroups;
    std::vector<Process> processes;
    for (const std::string &job : jobs) {
        const std::string path =
            is_v1 ? "slurm/uid_1000/job_" + job + "/step_0/task_0"
                  : "system.slice/slurmstepd.scope/job_" + job + "/step_0/user/task_0";
        const auto enter = cgroups.emplace_back(mounted(!is_v1), path).enter();
        processes.push_back(fixture.start("twin" + job,
                                          {standin("workload"), "--everything", "--failures",
                                           "--iterations", "20", "--name", "twin", "--hold"},
                                          enter));
        processes.push_back(fixture.start("script" + job, {python, script, "9", "hold"}, enter));
        processes.at(processes.size() - 2).wait_for_output("holding");
        processes.back().wait_for_output("worked");
    }
    for (const std::string &job : jobs) {
        fixture.check(labels_of("twin.py", "", job), fixture.truth_of_all("script" + job), 9);
        const truth::TruthSnapshot truth = fixture.truth_of_all("twin" + job);
        const Labels of = {{"comm", "twin"}, {"slurm_job_id", job}};
        check_counters_of(fixture.exporter.wait_for("gpusnoop_cuda_kernel_launches_total", of,
                                                    static_cast<double>(truth.all_launches())),
                          truth, of);
    }

    check_rows(
        fixture.exporter, {{"comm", "twin"}},
        {"cuda_memory_allocations_total", "cuda_memory_outstanding_bytes",
         "cuda_memory_site_outstanding_bytes", "cuda_memcpy_total", "cuda_memcpy_size_bytes_count",
         "cuda_memset_total", "cuda_kernel_launches_total",
         "cuda_kernel_launch_duration_seconds_count", "cuda_api_errors_total", "process_info"});
    check_rows(
        fixture.exporter, {{"script", "twin.py"}},
        {"cuda_memory_allocations_total", "process_info", "function_calls_total",
         "function_duration_seconds_count", "syscalls_total", "syscall_duration_seconds_count"});
    for (Process &process : processes) {
        process.signal(SIGKILL);
        (void)process.wait();
    }
}

TEST_CASE("a process that ends at once has the container or the job that root gave it") {
    require_bpf();
    struct Place {
        bool is_v2;
        std::string cgroup;
        std::string first_of_user;  // the outermost directory that a user owns
        std::string container, job;
        std::vector<std::string> environment = {};
    };
    const std::string id(64, 'c');
    const std::string other(64, 'd');
    const std::string nested = "docker/" + id + "/ray-node/user/workers/docker-" + other + ".scope";
    const std::string deep = "system.slice/docker-" + id + ".scope/a/b/c/d/e/f/g/h/i/j/k/l";
    const std::string sluid = "system.slice/slurmstepd.scope/s7QX2M9TABCD00/step_0/user/task_0";
    const std::string user = "user.slice/user-1000.slice/user@1000.service";
    // A variable over many pieces hides no variable behind it.
    const std::string longest = "LONG=" + std::string(5'000, 'x');
    const std::vector<Place> places = {
        {false, nested, "", id, ""},
        {true, nested, "", id, ""},
        {true, deep, "", id, ""},
        {true, sluid, "", "", "s7QX2M9TABCD00"},
        {true, sluid, "", "", "4711", {longest, "NOT_SLURM_JOB_ID=1", "SLURM_JOB_ID=4711"}},
        {true, "system.slice/none", "", "", "", {"SLURM_JOB_ID=4711"}},
        {true, user + "/slurmstepd.scope/job_4242/step_0", user, "", ""},
        {true, user + "/docker-" + id + ".scope", user, "", ""},
        {true, "system.slice/docker-" + id + ".scope/a", "system.slice/docker-" + id + ".scope", id,
         ""},
    };
    const Bench fixture("auto");
    int count = 3;
    bool found = false;
    for (const Place &place : places) {
        const std::filesystem::path root = mounted(place.is_v2);
        if (root.empty()) {
            continue;
        }
        found = true;
        CAPTURE(place.cgroup, place.environment);
        const Cgroup cgroup(root, place.cgroup);
        if (!place.first_of_user.empty()) {
            REQUIRE(::chown((root / place.first_of_user).c_str(), 1'000, 1'000) == 0);
        }
        std::vector<std::string> through = cgroup.enter();
        through.insert(through.end(), {"env", "-u", "SLURM_JOB_ID"});
        through.insert(through.end(), place.environment.begin(), place.environment.end());
        const std::string name = "short" + std::to_string(++count) + ".py";
        Process process = fixture.start(
            name, {python, fixture.script(name), std::to_string(count), "exit"}, through);
        REQUIRE(process.wait() == 0);
        fixture.check(labels_of(name, place.container, place.job), fixture.truth_of_all(name),
                      count);
    }
    if (!found) {
        missing("a mounted hierarchy of cgroups");
    }
}

TEST_CASE("processes of a container that the configuration names are traced below its cgroup") {
    require_bpf();
    const std::string id(64, 'e');
    bool found = false;
    for (const bool is_v2 : {false, true}) {
        const std::filesystem::path root = mounted(is_v2);
        if (root.empty()) {
            continue;
        }
        found = true;
        CAPTURE(is_v2);
        const Cgroup cgroup(root, "docker/" + id + "/ray-node/user/workers");
        const Exporter exporter("cuda: {enabled: false}\ntargets: {gpu_processes: false, " +
                                ("containers: [\"" + id.substr(0, 12) + "\"]}\n") +
                                "syscall: {enabled: true, syscalls: [getppid]}\n");
        std::vector<std::string> through = cgroup.enter();
        through.insert(through.end(),
                       {python, "-c", "import os, time\nwhile os.getppid(): time.sleep(0.01)"});
        Process process(through);
        eventually("its system calls", [&] {
            return exporter.scrape().sum("gpusnoop_syscalls_total",
                                         {{"comm", "python3"}, {"container_id", id}}) > 10;
        });
        process.signal(SIGKILL);
        (void)process.wait();
    }
    if (!found) {
        missing("a mounted hierarchy of cgroups");
    }
}
