// The dashboards on a real Prometheus: every query of every panel returns data, but of those that
// dashboards/no_data.json lists.
#include <bpf/bpf.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "tests/e2e/prometheus.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

const std::string gpu_uuid = "GPU-00000000-1111-2222-3333-444444444444";
const std::string pod_uid = "a9d86a5c-6dbe-4d63-9e2a-1f0c2b3d4e5f";

// What the NVIDIA driver says of its GPUs.
class DashboardsNode : public TemporaryDirectory {
public:
    DashboardsNode() {
        const fs::path gpu = path() / "gpus/0000:3b:00.0";
        fs::create_directories(gpu);
        write_file(gpu / "information",
                   "Model: \t\t NVIDIA H200\nGPU UUID: \t " + gpu_uuid +
                       "\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 0\n");
    }
};

// What dcgm-exporter and kube-state-metrics say of that GPU and that pod, as files for a server.
class OtherExporters {
public:
    OtherExporters()
        : server_({"python3", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory",
                   directory_.path()}) {
        write_file(directory_ / "dcgm.txt",
                   "# TYPE DCGM_FI_DEV_FB_USED gauge\n"
                   "DCGM_FI_DEV_FB_USED{gpu=\"4\",UUID=\"" +
                       gpu_uuid +
                       "\",device=\"nvidia4\"} 1234\n"
                       "# TYPE DCGM_FI_DEV_FB_FREE gauge\n"
                       "DCGM_FI_DEV_FB_FREE{gpu=\"4\",UUID=\"" +
                       gpu_uuid +
                       "\",device=\"nvidia4\"} 80000\n"
                       "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
                       "DCGM_FI_DEV_GPU_UTIL{gpu=\"4\",UUID=\"" +
                       gpu_uuid + "\",device=\"nvidia4\"} 56\n");
        write_file(directory_ / "kube.txt",
                   "# TYPE kube_pod_info gauge\n"
                   "kube_pod_info{namespace=\"research\",pod=\"train-0\",uid=\"" +
                       pod_uid + "\",node=\"node\"} 1\n");
        server_.wait_for_output(" port ");
        const std::string said = server_.output();
        port_ = std::to_string(std::stoi(said.substr(said.find(" port ") + 6)));
    }

    [[nodiscard]] std::string jobs() const { return job("dcgm") + job("kube"); }

private:
    [[nodiscard]] std::string job(const std::string &name) const {
        return "  - job_name: " + name + "\n    metrics_path: /" + name +
               ".txt\n    static_configs:\n      - targets: ['127.0.0.1:" + port_ + "']\n";
    }

    TemporaryDirectory directory_;
    Process server_;
    std::string port_;
};

// A cgroup as the kubelet makes one for a container.
class Pod {
public:
    Pod() {
        std::istringstream mounts(read_file("/proc/mounts"));
        for (std::string device, at, type, rest;
             mounts >> device >> at >> type && std::getline(mounts, rest);) {
            if (type == "cgroup2") {
                top_ = fs::path(at) / ("gpusnoop-test-" + std::to_string(::getpid()));
            }
        }
        group_ = top_ / ("kubepods/burstable/pod" + pod_uid) / std::string(64, 'c');
        std::error_code error;
        if (top_.empty() || !fs::create_directories(group_, error)) {
            missing("cgroups, version 2, in which groups can be made");
        }
    }
    Pod(const Pod &) = delete;
    Pod &operator=(const Pod &) = delete;
    ~Pod() {
        for (fs::path group = group_; group != top_.parent_path(); group = group.parent_path()) {
            ::rmdir(group.c_str());
        }
    }

    void take(const Process &process) const {
        std::ofstream(group_ / "cgroup.procs") << process.pid() << std::flush;
        REQUIRE(
            read_file("/proc/" + std::to_string(process.pid()) + "/cgroup").find("pod" + pod_uid) !=
            std::string::npos);
    }

private:
    fs::path top_;
    fs::path group_;
};

std::vector<std::string> math(const std::string &file) {
    const std::string cublas = standin("libcublas.so.12") + ":";
    const std::string cudnn = standin("libcudnn.so.9") + ":";
    return {standin("failing_libraries"),
            "100",
            file,
            cublas + "cublasCreate_v2",
            cublas + "cublasSgemm_v2",
            cublas + "cublasGemmEx",
            cudnn + "cudnnCreate",
            cudnn + "cudnnBackendExecute",
            cudnn + "cudnnBackendFinalize"};
}

// Programs that do all that dashboards show, for as long as they are there.
class Programs {
public:
    explicit Programs(const Exporter &exporter)
        : train_(workload("train", {"--rate", "300", "--threads", "2", "--failures", "--leak",
                                    "4096", "--memory-kinds", "--default-kind"})),
          everything_(workload("everything", {"--rate", "300", "--everything", "--api", "both"})),
          calm_(workload("calm", {"--rate", "20"}, {{"LD_LIBRARY_PATH", own_runtime()}})),
          ranks_({standin("ranks"), "--ranks", "2", "--wait-for-file", directory_ / "never"}),
          math_(math(directory_ / "never")),
          tensors_({standin("torch/2/tensors"), "--until-stopped"}) {
        pod_.take(train_);
        // A process has the name of its script.
        const fs::path script = directory_ / "missing";
        write_file(script, "#!/bin/sh\nwhile :; do test -e /missing; sleep 0.2; done\n");
        fs::permissions(script, fs::perms::owner_all);
        missing_.emplace(std::vector<std::string>{script});
        for (const auto *library : {"12/libcudart.so.12", "driver/libcuda.so.1", "libnccl.so.2",
                                    "libcublas.so.12", "libcudnn.so.9"}) {
            exporter.wait_until_attached_to(standin(library));
        }
        hanging_.emplace(std::vector<std::string>{standin("hangs"), "--threads", "2"});
        hanging_->wait_for_output("hanging");
        // One that has cost more than it may, and is slow then.
        launcher_.emplace(std::vector<std::string>{standin("launcher"), "--name", "launcher"});
        eventually("launches that are not seen", [&] {
            return exporter.scrape().has("gpusnoop_cuda_launches_unobserved_seconds_total",
                                         {{"comm", "launcher"}});
        });
        launcher_->signal(SIGUSR1);
        write_file(directory_ / "go", "");
    }

    // Those that do not do it slowly enough to go on all the time.
    void burst() const {
        Process talks({standin("lives"), "name", "talks", "cuda", "connects", "3", "refused", "2",
                       "pairs", "2", "say", "100000", "rest", "2500", "exit", "0"});
        const Process ranks({standin("ranks"), "--ranks", "4", "--rounds", "20"});
        const Process calls(math(directory_ / "go"));
        Process leaky({standin("leaky"), "--times", "20"});
        Process graphs({standin("graphs"), "capture_replay"});
        Process loads({standin("spends"), "name", "loads", "launch", "worker", "pipe", "50", "read",
                       directory_ / "data", "8"});
        CHECK(leaky.wait() == 0);
        CHECK(graphs.wait() == 0);
        CHECK(loads.wait() == 0);
        CHECK(talks.wait() == 0);
        ranks.wait_for_output("holding");
        calls.wait_for_output("holding");
    }

private:
    // Where a copy of the runtime is for one program alone.
    [[nodiscard]] std::string own_runtime() const {
        const fs::path folder = directory_ / "runtime";
        fs::create_directory(folder);
        fs::copy_file(standin("12/libcudart.so.12"), folder / "libcudart.so.12");
        return folder;
    }

    [[nodiscard]] Process workload(const std::string &name, std::vector<std::string> options,
                                   Process::Environment environment = {}) const {
        options.insert(options.begin(), {standin("workload"), "--name", name, "--seconds", "3600",
                                         "--wait-for-file", directory_ / "go"});
        return Process(std::move(options), std::move(environment));
    }

    TemporaryDirectory directory_;
    Pod pod_;
    Process train_;
    Process everything_;
    Process calm_;  // its launches are timed, whatever those of others cost
    Process ranks_;
    Process math_;
    Process tensors_;
    std::optional<Process> missing_;  // whose system calls fail
    std::optional<Process> hanging_;  // whose calls do not return
    std::optional<Process> launcher_;
};

// Programs that have memory and tensors from before the exporter's start, and free them when it
// runs.
class Early {
public:
    Early() {
        eventually("memory to be allocated", [&] {
            const auto truths = truth::read_truth(directory_.path());
            return truth::sum(truths).all_memory().outstanding_allocations >= 10;
        });
        tensors_.wait_for_output("waits");
    }

    // The tensors that are freed are from before the probe, however fast or slow that attaches.
    void free_tensors(const Exporter &exporter) const {
        exporter.wait_until_attached_to(standin("torch/2/libc10.so"));
        write_file(directory_ / "go", "");
        tensors_.wait_for_output("holding");
    }

private:
    TemporaryDirectory directory_;
    Process tensors_{{standin("torch/2/tensors"), "--name", "early_tensors", "--early", "4",
                      "--rounds", "1", "--wait-for-file", directory_ / "go"}};
    Process program_{{standin("workload"), "--name", "early", "--seconds", "3600", "--rate", "200"},
                     {{"STANDIN_TRUTH_DIR", directory_.path().string()}}};
};

// As long as it lives the kernel measures the time in BPF programs.
class BpfStatistics {
public:
    BpfStatistics() : fd_(::bpf_enable_stats(BPF_STATS_RUN_TIME)) { REQUIRE(fd_ >= 0); }
    BpfStatistics(const BpfStatistics &) = delete;
    BpfStatistics &operator=(const BpfStatistics &) = delete;
    ~BpfStatistics() { ::close(fd_); }

private:
    int fd_;
};

// The exporter, the programs, and a Prometheus that scrapes all that dashboards show.
struct Scene {
    DashboardsNode node;
    BpfStatistics statistics;
    Early early;
    Exporter exporter{
        "# histograms: by default\ndiscovery: {nvidia_proc_path: " + node.path().string() +
        "}\nsinks: [{type: file, path: " + (node / "events.jsonl").string() +
        "}]\ncuda: {max_overhead: 5%}\nfunctions: {groups: {nccl: {slow_threshold: 1us}, "
        "cublas: {slow_threshold: 1us}, cudnn: {slow_threshold: 1us}}}\n"
        "syscall: {enabled: true}\ntargets: {comms: [missing]}\n"
        "in_flight: {enabled: true}\ntorch: {enabled: true}\n"
        "host: {time: {enabled: true}, life: {enabled: true}, tasks: {enabled: true}, "
        "pressure: {enabled: true}, memory: {enabled: true}, "
        "net: {enabled: true, look_interval: 1s}}\n"};
    OtherExporters others;
    e2e::Prometheus prometheus{
        exporter.port(),
        {.rules = std::string(GPUSNOOP_SOURCE_DIR) + "/dashboards/rules/gpusnoop_recording.yaml",
         .more_jobs = others.jobs()}};
    Programs programs{exporter};

    [[nodiscard]] Finished query(std::vector<std::string> options) const {
        options.insert(options.begin(),
                       {"python3", std::string(GPUSNOOP_SOURCE_DIR) + "/dashboards/query.py",
                        "--prometheus", "http://127.0.0.1:" + std::to_string(prometheus.port())});
        return run(std::move(options));
    }
};

void require_scene() {
    require_bpf();
    e2e::require_prometheus();
}

}  // namespace

TEST_CASE("every query of the dashboards returns data", "[e2e]") {
    require_scene();
    const Scene scene;
    scene.early.free_tensors(scene.exporter);
    const auto has_rare = [&] {
        const Page page = scene.exporter.scrape();
        // The shortest and longest calls are those of the last whole minute, by the clock.
        return page.has("gpusnoop_function_duration_min_seconds", {{"library", "libnccl.so.2"}}) &&
               page.has("gpusnoop_cuda_memory_untracked_frees_total", {{"comm", "early"}}) &&
               page.sum("gpusnoop_torch_memory_untracked_frees_total",
                        {{"comm", "early_tensors"}}) == 2;
    };
    // And rates need scrapes before and after what they are of.
    constexpr int least = 3;
    int bursts = 0;
    eventually(
        "the first minute to be over, and frees of what is from before",
        [&] {
            scene.programs.burst();
            scene.prometheus.wait_for_scrapes();
            bursts++;
            return bursts >= least && has_rare();
        },
        std::chrono::seconds(110));
    scene.prometheus.wait_for_scrapes();

    const Finished queried = scene.query({"--range", "60", "--rate-interval", "20s"});
    INFO(queried.output);
    CHECK(queried.code == 0);
    CHECK(queried.output.find(" 0 mistakes") != std::string::npos);
}
