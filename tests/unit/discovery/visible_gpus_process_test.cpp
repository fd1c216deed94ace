#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/visible_gpus.h"
#include "tests/harness/directory.h"
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
    void opened(std::initializer_list<int> minors) const {
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
    // Of the devices cgroup (v1) of the process.
    void device_list(const std::string &text) const {
        std::ofstream(process() / "cgroup")
            << "5:cpu,cpuacct:/\n4:devices:/slurm/uid_0/job_1\n0::/\n";
        const auto group = directory_ / "cgroups/devices/slurm/uid_0/job_1";
        visible_gpus_process_fs::create_directories(group);
        std::ofstream(group / "devices.list") << text;
    }
    [[nodiscard]] VisibleGpus visible(const std::vector<Gpu> &of_node) const {
        gpusnoop::processes::ProcessReader reader;
        const auto visible = visible_gpus_of(reader, kTgid, of_node, directory_.path().string(),
                                             (directory_ / "cgroups").string());
        REQUIRE(visible.has_value());
        return *visible;
    }

private:
    harness::TemporaryDirectory directory_;
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
    }
    SECTION("a device cgroup that allows all devices but some does not name these") {
        proc.device_list("a *:* rwm\n");
        CHECK(seen({first}, 1) == Expected{0});
        CHECK(seen({first, job}, 0).empty());
        proc.opened({3});
        CHECK(seen({first, job}, 1) == Expected{3});
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
