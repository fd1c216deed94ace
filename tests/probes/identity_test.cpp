// Whose calls they were: workloads that are all python3, told apart by their scripts, Slurm jobs,
// containers and units. Each counts itself.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/probes/identity.h"

using namespace harness;
namespace fs = std::filesystem;

TEST_CASE("workloads of python3 have rows of their own, by script, job, container and unit", "") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Bench fixture(mode);
    struct Workload {
        std::string name;  // of its script
        fs::path hierarchy;
        std::string cgroup;
        std::string container, job;
        Labels info;
    };
    const std::string id(64, 'c');
    const std::string uid = std::to_string(::getuid());
    const fs::path v1 = mounted(false);
    const fs::path v2 = mounted(true);
    std::vector<Workload> workloads = {{"alone.py", "", "", "", "", {{"uid", uid}}}};
    const auto add = [&](const std::string &name, const fs::path &hierarchy,
                         const std::string &cgroup, const std::string &container,
                         const std::string &job, const Labels &info) {
        if (!hierarchy.empty()) {
            workloads.push_back({name, hierarchy, cgroup, container, job, info});
        }
    };
    add("train.py", v1, "slurm/uid_1000/job_12/step_0/task_0", "", "12", {{"slurm_step_id", "0"}});
    add("train.py", v2, "system.slice/slurmstepd.scope/job_13/step_batch/user/task_0", "", "13",
        {{"slurm_step_id", "batch"}});
    add("train.py", v2, "system.slice/slurmstepd.scope/gpu-7/job_14/step_extern/user/task_0", "",
        "14", {{"slurm_step_id", "extern"}});
    add("train.py", v2, "system.slice/docker-" + id + ".scope", id, "", {{"systemd_unit", ""}});
    add("train.py", v2, "system.slice/gpusnoop-test.service", "", "",
        {{"systemd_unit", "gpusnoop-test.service"}});
    if (workloads.size() == 1) {
        missing("a mounted hierarchy of cgroups");
    }

    int count = 3;
    for (const bool stays : {false, true}) {
        for (std::size_t i = 0; i < workloads.size(); i++) {
            const Workload &one = workloads[i];
            CAPTURE(one.name, one.cgroup, stays);
            std::optional<Cgroup> cgroup;
            if (!one.cgroup.empty()) {
                cgroup.emplace(one.hierarchy, one.cgroup);
            }
            const std::string name = (stays ? "stays_" : "") + one.name;
            const Labels of = labels_of(name, one.container, one.job);
            count++;
            const std::string truth = std::to_string(i) + (stays ? "s" : "");
            Process process = fixture.start(truth,
                                            {python, "-u", fixture.script(name),
                                             std::to_string(count), stays ? "hold" : "exit"},
                                            cgroup ? cgroup->enter() : std::vector<std::string>{});
            process.wait_for_output("worked");
            fixture.check(of, fixture.truth_of_all(truth), count);
            if (stays) {
                Labels info = one.info;
                info.insert(of.begin(), of.end());
                info["pid"] = std::to_string(process.pid());
                CHECK(fixture.exporter.scrape().sum("gpusnoop_process_info", info) == 1);
                process.signal(SIGKILL);
            }
            (void)process.wait();
        }
    }
}

TEST_CASE("a script is named whatever its name is, and where it lies", "") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Bench fixture(mode);
    int count = 10;
    const auto check = [&](const std::string &label, std::vector<std::string> arguments,
                           const std::vector<std::string> &through = {}) {
        CAPTURE(label, arguments);
        count++;
        arguments.insert(arguments.begin(), python);
        arguments.insert(arguments.end(), {std::to_string(count), "exit"});
        Process process = fixture.start(std::to_string(count), arguments, through);
        REQUIRE(process.wait() == 0);
        fixture.check(labels_of(label), fixture.truth_of_all(std::to_string(count)), count);
    };
    check("a b.py", {"-X", "dev", "-W", "ignore", fixture.script("a b.py")});
    check("tr\xef\xbf\xbdin.py", {fixture.script("tr\xffin.py")});
    // A path of nearly 4 KiB, the most that the kernel opens.
    std::string deep;
    while ((fixture.scripts / deep).string().size() < 3'800) {
        deep += std::string(200, 'd') + "/";
    }
    check("deep.py", {fixture.script(deep + "deep.py")});
    check(std::string(128, 'n'), {fixture.script(std::string(252, 'n') + ".py")});
    check("behind.py", {"-X", std::string(4'000, 'o'), fixture.script("behind.py")});
    // By the interpreter's line of a script, and by env.
    const fs::path line = fixture.script("line.py");
    write_file(line, "#!/usr/bin/env -S " + python + " -u\n" + workload);
    fs::permissions(line, fs::perms::owner_all);
    check("line.py", {"-c", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])", line});
}

TEST_CASE("an exec from one script to another ends the first one's rows", "") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Bench fixture(mode);
    const std::string second = fixture.script("second.py");
    Process process = fixture.start(
        "exec", {python, fixture.script("first.py"), "20", "exec", second, "30", "hold"});
    (void)fixture.exporter.wait_for("gpusnoop_function_calls_total", labels_of("second.py"), 30);
    const auto truths = truth::read_truth(fixture.truths / "exec");
    REQUIRE(truths.size() == 2);
    const bool in_order = truths[0].generation < truths[1].generation;
    fixture.check(labels_of("first.py"), truths[in_order ? 0 : 1], 20);
    fixture.check(labels_of("second.py"), truths[in_order ? 1 : 0], 30);
    const Page page = fixture.exporter.scrape();
    CHECK(page.samples("gpusnoop_process_info", {{"pid", std::to_string(process.pid())}}).size() ==
          1);
    CHECK(page.sum("gpusnoop_process_info", labels_of("second.py")) == 1);
}

TEST_CASE("arguments that are not in memory name no script, and all is counted", "") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Bench fixture(mode);
    // The stack is below the pointers to the environment. Many of them keep it out of the page that
    // the program gives up.
    std::vector<std::string> through = {"env"};
    for (int i = 0; i < 1'000; i++) {
        through.push_back("PAD" + std::to_string(i) + "=");
    }
    Process process =
        fixture.start("gone", {python, fixture.script("gone.py"), "25", "forget"}, through);
    process.wait_for_output("worked");
    fixture.check(labels_of(""), fixture.truth_of_all("gone"), 25);
}

TEST_CASE("without the label script, no script is shown") {
    require_bpf();
    const Bench fixture("auto", "labels: {script: false}\n");
    const Finished finished = run({python, fixture.script("hidden.py"), "7", "exit"},
                                  {{"STANDIN_TRUTH_DIR", fixture.truths.path().string()}});
    REQUIRE(finished.code == 0);
    (void)fixture.exporter.wait_for("gpusnoop_cuda_memory_allocations_total", labels_of(""), 7);
    CHECK(http(fixture.exporter.port(), "/metrics").body.find("hidden") == std::string::npos);
    CHECK(http(fixture.exporter.port(), "/").body.find("hidden") == std::string::npos);
}
