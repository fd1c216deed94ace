#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/gpu_evidence.h"
#include "exporter/discovery/gpus/visible_gpus.h"
#include "exporter/processes/process_reader.h"
#include "tests/harness/device_program.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/discovery/made_up_gpus.h"

using namespace gpusnoop::discovery;

namespace {

namespace visible_gpus_process_fs = std::filesystem;

// A directory in place of /proc, with one process.
class MadeUpProc {
public:
    static constexpr std::uint32_t kTgid = 4711;

    MadeUpProc() { visible_gpus_process_fs::create_directories(process() / "root/dev"); }

    [[nodiscard]] visible_gpus_process_fs::path process() const {
        return directory_ / std::to_string(kTgid);
    }
    void environment(const std::string &bytes) const {
        std::ofstream(process() / "environ", std::ios::binary) << bytes;
    }
    void node(unsigned minor) const {
        std::ofstream(process() / "root/dev" / ("nvidia" + std::to_string(minor))) << "";
    }
    void all_nodes() const {
        for (unsigned minor = 0; minor < 4; minor++) {
            node(minor);
        }
    }
    // As CUDA opens them.
    void opened(const std::vector<int> &minors) const {
        visible_gpus_process_fs::remove_all(process() / "fd");
        visible_gpus_process_fs::create_directories(process() / "fd");
        int number = 3;
        for (const std::string target : {"/dev/nvidiactl", "/dev/nvidia-uvm", "socket:[1]"}) {
            visible_gpus_process_fs::create_symlink(target,
                                                    process() / "fd" / std::to_string(number++));
        }
        for (const int minor : minors) {
            visible_gpus_process_fs::create_symlink("/dev/nvidia" + std::to_string(minor),
                                                    process() / "fd" / std::to_string(number++));
        }
    }
    // The same of instances.
    void opened_capabilities(std::initializer_list<int> minors) const {
        visible_gpus_process_fs::create_directories(process() / "fd");
        visible_gpus_process_fs::create_symlink("/dev/nvidia-caps/nvidia-cap1",
                                                process() / "fd/99");
        for (const int minor : minors) {
            visible_gpus_process_fs::create_symlink(
                "/dev/nvidia-caps/nvidia-cap" + std::to_string(minor),
                process() / "fd" / std::to_string(100 + minor));
        }
    }
    void major_of_capabilities(int major) const {
        std::ofstream(directory_ / "devices") << "Character devices:\n  1 mem\n195 nvidia\n"
                                              << major << " nvidia-caps\n\n";
    }
    // Of version 2 alone.
    void programs(const std::vector<std::vector<bpf_insn>> &programs, bool has_unreadable = false) {
        std::ofstream(process() / "cgroup") << "0::/job_1\n";
        programs_ = DevicePrograms{programs, has_unreadable};
    }
    // Of the devices cgroup (v1) of the process.
    void device_list(const std::string &text,
                     const std::string &path = "/slurm/uid_0/job_1") const {
        std::ofstream(process() / "cgroup") << "5:cpu,cpuacct:/\n4:devices:" + path + "\n0::/\n";
        const auto group = directory_ / ("cgroups/devices" + path);
        visible_gpus_process_fs::create_directories(group);
        std::ofstream(group / "devices.list") << text;
    }
    // When so much time was spent on the process already.
    [[nodiscard]] std::size_t opened_seen_after(std::chrono::hours spent) const {
        gpusnoop::processes::ProcessReader reader;
        const auto evidence = reader.about(kTgid, [&] {
            (void)reader.spend(spent);
            return gpu_evidence_of(reader, kTgid, gpus(),
                                   {.proc = directory_.path().string(), .programs = {}});
        });
        REQUIRE(evidence.has_value());
        return evidence->opened.size();
    }
    [[nodiscard]] VisibleGpus visible(const std::vector<Gpu> &of_node) const {
        gpusnoop::processes::ProcessReader reader;
        const auto visible = visible_gpus_of(reader, kTgid, of_node,
                                             {.proc = directory_.path().string(),
                                              .cgroups = (directory_ / "cgroups").string(),
                                              .programs = programs_});
        REQUIRE(visible.has_value());
        return *visible;
    }

private:
    harness::TemporaryDirectory directory_;
    std::optional<DevicePrograms> programs_;
};

}  // namespace

TEST_CASE("an environment that was written over", "[visible_gpus]") {
    const auto is_unknown = [](const std::string &environment) {
        CAPTURE(environment);
        const auto visible = VisibleGpus::of(environment, gpus());
        CHECK_FALSE(visible.host_index(0));
        CHECK_FALSE(visible.only());
        CHECK(VisibleGpus::of(environment, gpus({2})).only() == 2u);
    };
    is_unknown(std::string(200, '\0'));
    is_unknown("ray::Worker" + std::string(100, '\0'));
    is_unknown(block({"=x"}));
    is_unknown(block({"PATH=/bin", "title of the process"}));
    is_unknown("PATH=/bin");                                      // cut short
    is_unknown(block({"PATH=/bin"}) + "CUDA_VISIBLE_DEVICES=1");  // of 1,2 perhaps
    // What is left of the old one still holds.
    const auto left = VisibleGpus::of(block({"title", "", "CUDA_VISIBLE_DEVICES=2,1"}), gpus());
    CHECK(devices(left, 2) == Expected{2, 1});
}

TEST_CASE("nothing is known of no process", "[visible_gpus]") {
    const VisibleGpus nothing;
    CHECK_FALSE(nothing.host_index(0));
    CHECK_FALSE(nothing.only());
    CHECK_FALSE(VisibleGpus::of_unknown({}).only());
    CHECK_FALSE(VisibleGpus::of_unknown(gpus()).host_index(0));
    CHECK(VisibleGpus::of_unknown(gpus({2})).host_index(0) == 2u);
    CHECK_FALSE(VisibleGpus::of_unknown(gpus({2})).host_index(1));
}

TEST_CASE("a process's devices, from its environment and its nodes", "[visible_gpus]") {
    const MadeUpProc proc;
    SECTION("numbers count the GPUs of its container") {
        proc.environment(with_list("1,0"));
        proc.node(1);
        proc.node(3);
        CHECK(devices(proc.visible(gpus()), 2) == Expected{3, 1});
    }
    SECTION("on the host") {
        proc.environment(with_list("1,0"));
        CHECK(devices(proc.visible(gpus()), 2) == Expected{1, 0});
        CHECK(devices(proc.visible({}), 0).empty());
    }
    SECTION("no environment: only a GPU that is the only one of its container") {
        proc.node(3);
        CHECK(proc.visible(gpus()).only() == 3u);
        proc.node(1);
        CHECK(devices(proc.visible(gpus()), 0).empty());
    }
    SECTION("an empty environment is that of a process that ends") {
        proc.environment("");
        CHECK(devices(proc.visible(gpus()), 0).empty());
    }
    SECTION("no nodes can be seen: only a GPU that is the only one of the node") {
        visible_gpus_process_fs::remove_all(proc.process() / "root");
        proc.environment(with_list("1,0"));
        CHECK(devices(proc.visible(gpus()), 0).empty());
        CHECK(proc.visible(gpus({2})).only() == 2u);
    }
    SECTION("an environment of up to 1 MiB") {
        const std::string start = with_list("1,0") + "X=";
        const std::size_t most = 1024 * 1024;
        proc.environment(start + std::string(most - start.size() - 1, 'x') + '\0');
        CHECK(devices(proc.visible(gpus()), 2) == Expected{1, 0});
        proc.environment(start + std::string(most - start.size(), 'x') + '\0');
        CHECK(devices(proc.visible(gpus()), 0).empty());
    }
    SECTION("no process") {
        visible_gpus_process_fs::remove_all(proc.process());
        CHECK(devices(proc.visible(gpus()), 0).empty());
        CHECK(proc.visible(gpus({2})).only() == 2u);
    }
}

TEST_CASE("the descriptors of a process are read for as long as there is patience with it",
          "[visible_gpus]") {
    const MadeUpProc proc;
    std::vector<int> minors(300);
    std::iota(minors.begin(), minors.end(), 0);
    proc.opened(minors);
    CHECK(proc.opened_seen_after(std::chrono::hours(0)) == 300);
    CHECK(proc.opened_seen_after(std::chrono::hours(1)) <= 64);
}

TEST_CASE("GPUs whose nodes exist, and of which the process may open some", "[visible_gpus]") {
    const MadeUpProc proc;
    proc.all_nodes();
    const auto seen = [&](const std::vector<std::string> &environment, std::size_t count) {
        proc.environment(block(environment));
        return devices(proc.visible(gpus()), count);
    };
    const std::string first = "CUDA_VISIBLE_DEVICES=0";
    const std::string job = "SLURM_JOB_ID=7";
    const std::string path = "PATH=/bin";
    SECTION("a device cgroup names them") {
        proc.device_list("c 1:3 rwm\nc 195:255 rw\nb *:* m\nc *:* m\nc 195:3 rwm\n");
        CHECK(seen({first}, 1) == Expected{3});
        CHECK(seen({path}, 1) == Expected{3});
        proc.device_list("c 195:1 rw\nc 195:2 rwm\nc 195:3 r\n");
        CHECK(seen({"CUDA_VISIBLE_DEVICES=1"}, 1) == Expected{2});
        proc.device_list("c 195:* rwm\n");
        CHECK(seen({"CUDA_VISIBLE_DEVICES=1"}, 1) == Expected{1});
        // This name is no way out of the exporter's own namespace.
        proc.device_list("c 195:2 rwm\n", "/..job");
        CHECK(seen({first}, 1) == Expected{2});
    }
    SECTION("a device cgroup that allows all devices but some does not name these") {
        // The kernel writes no other line beside this one.
        proc.device_list(GENERATE("a *:* rwm\n", "a *:* rwm\nc 195:3 rwm\n"));
        CHECK(seen({first}, 0).empty());
        CHECK(seen({first, job}, 0).empty());
        proc.opened({3});
        CHECK(seen({first}, 1) == Expected{3});
        CHECK(seen({first, job}, 1) == Expected{3});
        proc.opened({0, 1, 2, 3});
        CHECK(seen({path}, 4) == Expected{0, 1, 2, 3});
    }
    SECTION("Slurm says which are the job's, or the step's") {
        CHECK(seen({first, "SLURM_JOB_GPUS=3"}, 1) == Expected{3});
        CHECK(seen({path, "SLURM_JOB_GPUS=3"}, 1) == Expected{3});
        CHECK(seen({path, "SLURM_JOB_GPUS=0-2", "SLURM_STEP_GPUS=1,2"}, 2) == Expected{1, 2});
        // It does not confine the job, and the list has the node's numbers.
        CHECK(seen({"CUDA_VISIBLE_DEVICES=3", "SLURM_JOB_GPUS=3"}, 1) == Expected{3});
        // Either.
        CHECK(seen({"CUDA_VISIBLE_DEVICES=1", "SLURM_JOB_GPUS=1,2"}, 0).empty());
        CHECK(seen({first, job, "SLURM_JOB_GPUS=mig"}, 0).empty());
    }
    SECTION("it has opened them") {
        proc.opened({3});
        CHECK(seen({first}, 1) == Expected{3});
        CHECK(seen({first, "SLURM_JOB_GPUS=3"}, 1) == Expected{3});
        CHECK(seen({"CUDA_VISIBLE_DEVICES=3"}, 1) == Expected{3});
        // CUDA can open all in turn, or the only one that it may open.
        CHECK(seen({path}, 0).empty());
        // May it open 2 and 3?
        CHECK(seen({"CUDA_VISIBLE_DEVICES=1"}, 0).empty());
    }
    SECTION("it has opened others than those of Slurm") {
        proc.opened({0, 1, 2, 3});
        CHECK(seen({"CUDA_VISIBLE_DEVICES=1", "SLURM_JOB_GPUS=1,2"}, 1) == Expected{1});
    }
    SECTION("CUDA has not opened all of them yet") {
        proc.opened({0});
        CHECK(seen({"CUDA_VISIBLE_DEVICES=2,1"}, 2) == Expected{2, 1});
        CHECK(seen({path}, 4) == Expected{0, 1, 2, 3});
    }
    SECTION("without an environment") {
        proc.opened({3});
        CHECK(devices(proc.visible(gpus()), 0).empty());
        proc.device_list("c 195:2 rwm\n");
        CHECK(devices(proc.visible(gpus()), 1) == Expected{2});
    }
}

TEST_CASE("GPUs that device programs allow", "[visible_gpus]") {
    MadeUpProc proc;
    proc.all_nodes();
    const auto seen = [&](const std::vector<std::string> &environment, std::size_t count) {
        proc.environment(block(environment));
        return devices(proc.visible(gpus()), count);
    };
    const std::string first = "CUDA_VISIBLE_DEVICES=0";
    const std::string path = "PATH=/bin";
    const auto only = [](std::initializer_list<std::uint32_t> minors) {
        return harness::device_program(195, minors);
    };
    SECTION("one program") {
        proc.programs({only({1, 3})});
        CHECK(seen({first}, 1) == Expected{1});
        CHECK(seen({path}, 2) == Expected{1, 3});
        CHECK(proc.visible(gpus()).is_settled());
    }
    SECTION("of cgroups inside each other: what all of them allow") {
        proc.programs({only({1, 3}), only({2, 3})});
        CHECK(seen({first}, 1) == Expected{3});
    }
    SECTION("none: it may open all, also as a job of Slurm") {
        proc.programs({});
        CHECK(seen({first, "SLURM_JOB_ID=7"}, 1) == Expected{0});
    }
    SECTION("one that cannot be read: what the process has opened tells, or Slurm, or nothing") {
        proc.programs({harness::opaque_device_program()});
        CHECK(seen({first}, 0).empty());
        CHECK_FALSE(proc.visible(gpus()).is_settled());
        CHECK(seen({first, "SLURM_JOB_GPUS=3"}, 1) == Expected{3});
        proc.opened({3});
        CHECK(seen({first}, 1) == Expected{3});
        CHECK(seen({first, "SLURM_JOB_GPUS=2"}, 1) == Expected{3});
        proc.programs({only({0, 1, 2, 3})}, true);
        CHECK(seen({first}, 1) == Expected{3});
    }
    SECTION("one that cannot be read, and the first GPU is open") {
        proc.programs({}, true);
        proc.opened({0});
        CHECK(seen({first}, 1) == Expected{0});
        CHECK(seen({"CUDA_VISIBLE_DEVICES=1"}, 0).empty());
    }
    SECTION("beside a device cgroup of version 1") {
        proc.programs({only({2, 3})});
        proc.device_list("c 195:1 rwm\nc 195:2 rwm\n");
        CHECK(seen({first}, 1) == Expected{2});
    }
}

TEST_CASE("GPUs that are divided into instances", "[visible_gpus]") {
    MadeUpProc proc;
    proc.all_nodes();
    proc.major_of_capabilities(511);
    auto of_node = gpus();
    for (Gpu &gpu : of_node) {
        gpu.capabilities = {10 * gpu.minor + 3, 10 * gpu.minor + 4};
    }
    of_node[1].mig = of_node[2].mig = true;
    const std::string instance = "CUDA_VISIBLE_DEVICES=MIG-11111111-d72c-4106-c12f-20bd9faed9f6";
    const auto seen = [&](const std::vector<std::string> &environment, std::size_t count) {
        proc.environment(block(environment));
        return devices(proc.visible(of_node), count);
    };
    SECTION("an instance is of the GPU whose capability is open") {
        CHECK(seen({instance}, 0).empty());
        proc.opened_capabilities({23, 24});
        CHECK(seen({instance}, 1) == Expected{2});
        CHECK_FALSE(proc.visible(of_node).is_settled());
        // It may be that of a whole GPU, and the instance opened by NVML.
        CHECK(seen({"CUDA_VISIBLE_DEVICES=0"}, 0).empty());
    }
    SECTION("an instance of a GPU that has been divided since it was read") {
        proc.opened_capabilities({33, 34});
        CHECK(seen({instance}, 1) == Expected{3});
        CHECK(seen({"PATH=/bin"}, 0).empty());
    }
    SECTION("instances of two are open") {
        proc.opened_capabilities({14, 24});
        CHECK(seen({instance}, 0).empty());
    }
    SECTION("all GPUs are divided: CUDA has the instance that is open, and no other") {
        of_node[0].mig = of_node[3].mig = true;
        CHECK(seen({"PATH=/bin"}, 0).empty());
        proc.opened_capabilities({33, 34});
        CHECK(seen({"PATH=/bin"}, 1) == Expected{3});
        CHECK(seen({"CUDA_VISIBLE_DEVICES=0"}, 1) == Expected{3});
        CHECK(seen({"CUDA_VISIBLE_DEVICES="}, 0).empty());
        CHECK(seen({"CUDA_VISIBLE_DEVICES=MIG-" + kUuidA + "/1/0"}, 1) == Expected{3});
    }
    SECTION("a device cgroup allows the nodes of all GPUs, and an instance of one") {
        proc.device_list("c 195:1 rwm\nc 195:2 rwm\nc 511:23 rw\nc 511:24 rw\n");
        CHECK(seen({instance}, 1) == Expected{2});
        CHECK(seen({"PATH=/bin"}, 1) == Expected{2});
    }
    SECTION("so does a device program") {
        proc.programs({harness::device_program(195, {1, 2}, {{511, 13}, {511, 14}})});
        CHECK(seen({instance}, 1) == Expected{1});
    }
    SECTION("Slurm counts instances, too") {
        CHECK(seen({"CUDA_VISIBLE_DEVICES=0", "SLURM_JOB_GPUS=3"}, 0).empty());
    }
}

TEST_CASE("the devices of a real process", "[visible_gpus]") {
    // Minors that no driver has, so that this machine's nodes do not matter.
    auto of_node = gpus();
    for (Gpu &gpu : of_node) {
        gpu.minor += 100'000;
    }
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(ready[1], STDOUT_FILENO);
        ::execle(
            // No other program: while that is loaded, the environment cannot be read.
            "/bin/sh", "sh", "-c", "echo; kill -STOP $$", static_cast<char *>(nullptr),
            std::vector<const char *>{"CUDA_VISIBLE_DEVICES=3,1", "PATH=/usr/bin:/bin", nullptr}
                .data());
        ::_exit(127);
    }
    ::close(ready[1]);
    char byte = 0;
    CHECK(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    gpusnoop::processes::ProcessReader reader;
    const auto visible = visible_gpus_of(reader, static_cast<std::uint32_t>(child), of_node);
    REQUIRE(visible.has_value());
    CHECK(devices(*visible, 2) == Expected{3, 1});
    ::kill(child, SIGKILL);
    // Not waited for yet, so still there, but without memory.
    siginfo_t ended{};
    CHECK(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
    const auto of_ended = visible_gpus_of(reader, static_cast<std::uint32_t>(child), of_node);
    REQUIRE(of_ended.has_value());
    CHECK(devices(*of_ended, 0).empty());
    ::waitpid(child, nullptr, 0);
}
