// Whose calls they were: workloads that are all python3, told apart by their scripts, Slurm jobs,
// containers and units. Each counts itself.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

const std::string python = "/usr/bin/python3";
const std::string runtime = standin("12/libcudart.so.12");
const std::string calls_library = standin("libcalls.so.1");

// A program that makes as many calls of each probe as its first argument says, and then does what
// the second says: exit, hold, forget its arguments' memory first, or become another script.
const std::string workload = R"py(
import ctypes, os, sys, time
count, then = int(sys.argv[1]), sys.argv[2]
libc = ctypes.CDLL(None)
if then == "forget":
    fields = open("/proc/self/stat").read().rpartition(")")[2].split()
    page = int(fields[45]) & ~4095
    os.putenv("MOVED", "1")  # the array of pointers, too
    for name, value in os.environ.items():
        os.putenv(name, value)  # elsewhere: it lies behind the arguments
    libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(4096), 4)
cuda = ctypes.CDLL(")py" + runtime +
                             R"py(")
calls = ctypes.CDLL(")py" + calls_library +
                             R"py(")
for i in range(count):
    address = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(i + 1))
    cuda.cudaMemcpy(address, ctypes.c_char_p(b"x" * (i + 1)), ctypes.c_size_t(i + 1), 1)
    if i % 2:
        cuda.cudaFree(address)
    calls.calls_plain(i)
    os.getppid()
print("worked", flush=True)
if then == "exec":
    os.execv(sys.executable, [sys.executable, "-u"] + sys.argv[3:])
if then == "hold" or then == "forget":
    time.sleep(600)
)py";

// The directory of the v2 hierarchy, or of the freezer's v1 hierarchy; empty: not mounted.
fs::path mounted(bool is_v2) {
    std::ifstream mounts("/proc/self/mounts");
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        std::string device;
        std::string at;
        std::string type;
        std::string options;
        words >> device >> at >> type >> options;
        if (is_v2 ? type == "cgroup2"
                  : type == "cgroup" &&
                        ("," + options + ",").find(",freezer,") != std::string::npos) {
            return at;
        }
    }
    return {};
}

// A cgroup with this path, gone with this object: then nothing may run in it.
class Cgroup {
public:
    Cgroup(const fs::path &root, const std::string &path) : root_(root) {
        fs::path at = root;
        for (const fs::path &name : fs::path(path)) {
            at /= name;
            if (::mkdir(at.c_str(), 0755) == 0) {
                made_.push_back(at);
            }
        }
        path_ = at;
        REQUIRE(fs::exists(path_ / "cgroup.procs"));
    }
    ~Cgroup() {
        for (auto at = made_.rbegin(); at != made_.rend(); ++at) {
            ::rmdir(at->c_str());
        }
    }
    Cgroup(const Cgroup &) = delete;
    Cgroup &operator=(const Cgroup &) = delete;

    [[nodiscard]] std::vector<std::string> enter() const {
        return {"sh", "-c", "echo $$ >" + (path_ / "cgroup.procs").string() + " && exec \"$@\"",
                "sh"};
    }

private:
    fs::path root_;
    fs::path path_;
    std::vector<fs::path> made_;
};

// Everything that a test runs, on a page of an exporter that traces all of it.
struct Bench {
    explicit Bench(const std::string &mode, const std::string &more = "")
        : exporter("series: {budget: 100000}\ncuda: {attach: " + mode +
                   "}\ntargets: {}\nsyscall: {enabled: true, syscalls: [getppid]}\n"
                   "functions:\n  attach: " +
                   mode +
                   "\n  groups:\n    calls:\n      libraries: [\"libcalls.so*\"]\n"
                   "      functions: [calls_plain]\n" +
                   more),
          cuda_holder(hold(exporter)),
          calls_holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"}) {
        exporter.wait_until_attached_to(runtime);
        exporter.wait_until_attached_to(calls_library);
    }

    fs::path script(const std::string &name) const {
        const fs::path path = scripts / name;
        fs::create_directories(path.parent_path());
        write_file(path, workload);
        return path;
    }

    // Runs a workload, and says by `output` when it has worked.
    Process start(const std::string &truth, std::vector<std::string> command,
                  const std::vector<std::string> &through = {}) const {
        fs::create_directories(truths / truth);
        std::vector<std::string> all = through;
        all.insert(all.end(), command.begin(), command.end());
        return Process(all, {{"STANDIN_TRUTH_DIR", (truths / truth).string()}});
    }

    [[nodiscard]] truth::TruthSnapshot truth_of_all(const std::string &truth) const {
        return truth::sum(truth::read_truth(truths / truth));
    }

    // All rows with these labels are what the workloads did, `count` times each call, and none
    // else.
    void check(const Labels &of, const truth::TruthSnapshot &truth, int count) const {
        CAPTURE(of, count);
        REQUIRE(truth.calls("cudaMalloc") == static_cast<std::uint64_t>(count));
        const Page page = exporter.wait_for("gpusnoop_cuda_memory_allocations_total", of, count);
        check_counters_of(page, truth, of);
        (void)exporter.wait_for("gpusnoop_function_calls_total", of, count);
        // The process is a target from its first CUDA call on, before its first getppid().
        (void)exporter.wait_for("gpusnoop_syscalls_total", of, count);
    }

    TemporaryDirectory scripts;
    TemporaryDirectory truths;
    Exporter exporter;
    Process cuda_holder;
    Process calls_holder;
};

Labels labels_of(const std::string &script, const std::string &container = "",
                 const std::string &job = "") {
    return {{"comm", "python3"},
            {"script", script},
            {"container_id", container},
            {"slurm_job_id", job}};
}

}  // namespace

TEST_CASE("workloads of python3 have rows of their own, by script, job, container and unit",
          "[modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi"})));
    CAPTURE(mode);
    const Bench bench(mode);
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
            Process process = bench.start(
                truth,
                {python, "-u", bench.script(name), std::to_string(count), stays ? "hold" : "exit"},
                cgroup ? cgroup->enter() : std::vector<std::string>{});
            process.wait_for_output("worked");
            bench.check(of, bench.truth_of_all(truth), count);
            if (stays) {
                Labels info = one.info;
                info.insert(of.begin(), of.end());
                info["pid"] = std::to_string(process.pid());
                CHECK(bench.exporter.scrape().sum("gpusnoop_process_info", info) == 1);
                process.signal(SIGKILL);
            }
            (void)process.wait();
        }
    }
}

TEST_CASE("a script is named whatever its name is, and where it lies", "[modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi"})));
    CAPTURE(mode);
    const Bench bench(mode);
    int count = 10;
    const auto check = [&](const std::string &label, std::vector<std::string> arguments,
                           const std::vector<std::string> &through = {}) {
        CAPTURE(label, arguments);
        count++;
        arguments.insert(arguments.begin(), python);
        arguments.insert(arguments.end(), {std::to_string(count), "exit"});
        Process process = bench.start(std::to_string(count), arguments, through);
        REQUIRE(process.wait() == 0);
        bench.check(labels_of(label), bench.truth_of_all(std::to_string(count)), count);
    };
    check("a b.py", {"-X", "dev", "-W", "ignore", bench.script("a b.py")});
    check("tr\xef\xbf\xbdin.py", {bench.script("tr\xffin.py")});
    // A path of nearly 4 KiB, the most that the kernel opens.
    std::string deep;
    while ((bench.scripts / deep).string().size() < 3'800) {
        deep += std::string(200, 'd') + "/";
    }
    check("deep.py", {bench.script(deep + "deep.py")});
    check(std::string(128, 'n'), {bench.script(std::string(252, 'n') + ".py")});
    check("behind.py", {"-X", std::string(4'000, 'o'), bench.script("behind.py")});
    // By the interpreter's line of a script, and by env.
    const fs::path line = bench.script("line.py");
    write_file(line, "#!/usr/bin/env -S " + python + " -u\n" + workload);
    fs::permissions(line, fs::perms::owner_all);
    check("line.py", {"-c", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])", line});
}

TEST_CASE("an exec from one script to another ends the first one's rows", "[modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi"})));
    CAPTURE(mode);
    const Bench bench(mode);
    const std::string second = bench.script("second.py");
    Process process =
        bench.start("exec", {python, bench.script("first.py"), "20", "exec", second, "30", "hold"});
    (void)bench.exporter.wait_for("gpusnoop_function_calls_total", labels_of("second.py"), 30);
    const auto truths = truth::read_truth(bench.truths / "exec");
    REQUIRE(truths.size() == 2);
    const bool in_order = truths[0].generation < truths[1].generation;
    bench.check(labels_of("first.py"), truths[in_order ? 0 : 1], 20);
    bench.check(labels_of("second.py"), truths[in_order ? 1 : 0], 30);
    const Page page = bench.exporter.scrape();
    CHECK(page.samples("gpusnoop_process_info", {{"pid", std::to_string(process.pid())}}).size() ==
          1);
    CHECK(page.sum("gpusnoop_process_info", labels_of("second.py")) == 1);
}

TEST_CASE("arguments that are not in memory name no script, and all is counted", "[modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi"})));
    CAPTURE(mode);
    const Bench bench(mode);
    // The stack is below the pointers to the environment. Many of them keep it out of the page that
    // the program gives up.
    std::vector<std::string> through = {"env"};
    for (int i = 0; i < 1'000; i++) {
        through.push_back("PAD" + std::to_string(i) + "=");
    }
    Process process =
        bench.start("gone", {python, bench.script("gone.py"), "25", "forget"}, through);
    process.wait_for_output("worked");
    bench.check(labels_of(""), bench.truth_of_all("gone"), 25);
}

TEST_CASE("without the label script, no script is shown") {
    require_bpf();
    const Bench bench("auto", "labels: {script: false}\n");
    const Finished finished = run({python, bench.script("hidden.py"), "7", "exit"},
                                  {{"STANDIN_TRUTH_DIR", bench.truths.path().string()}});
    REQUIRE(finished.code == 0);
    (void)bench.exporter.wait_for("gpusnoop_cuda_memory_allocations_total", labels_of(""), 7);
    CHECK(http(bench.exporter.port(), "/metrics").body.find("hidden") == std::string::npos);
    CHECK(http(bench.exporter.port(), "/").body.find("hidden") == std::string::npos);
}
