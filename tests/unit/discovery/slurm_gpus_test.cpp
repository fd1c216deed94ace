// Which GPUs Slurm has given to the jobs of a node.
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/slurm_gpus.h"

using namespace gpusnoop;
using namespace gpusnoop::discovery;

namespace {

using Jobs = std::map<std::string, std::set<unsigned>>;

// A node with four GPUs, whose device nodes are not in the order of their indices.
struct SlurmNode {
    struct Process {
        processes::SlurmStep step;
        std::string environment;  // empty: it cannot be read
    };
    std::map<std::uint32_t, Process> running;
    std::map<std::uint32_t, int> asked;
    std::chrono::nanoseconds now{std::chrono::hours(1)};
    SlurmGpus gpus{{gpu(0, 3), gpu(1, 2), gpu(2, 1), gpu(3, 0)}, node()};

    static Gpu gpu(unsigned index, int minor) {
        Gpu one;
        one.index = index;
        one.minor = minor;
        return one;
    }
    SlurmGpus::Node node() {
        return {.processes =
                    [this] {
                        std::vector<std::uint32_t> tgids;
                        for (const auto &[tgid, process] : running) {
                            tgids.push_back(tgid);
                        }
                        return tgids;
                    },
                .step_of = [this](std::uint32_t tgid) { return running[tgid].step; },
                .environment_of = [this](std::uint32_t tgid) -> Result<std::string> {
                    asked[tgid]++;
                    const std::string &environment = running[tgid].environment;
                    return environment.empty() ? Result<std::string>(fail("gone", ESRCH))
                                               : environment;
                }};
    }
    void add(std::uint32_t tgid, const std::string &job, const std::string &step,
             const std::vector<std::string> &variables) {
        std::string environment;
        for (const std::string &one : variables) {
            environment += one;
            environment += '\0';
        }
        running[tgid] = {{job, step}, environment};
    }
    Jobs look() {
        now += SlurmGpus::round;
        for (std::size_t i = 0; i <= running.size() / SlurmGpus::at_once; i++) {
            gpus.look(now);
        }
        return gpus.jobs();
    }
};

}  // namespace

TEST_CASE("a batch job has the GPUs of its script, by the numbers of their nodes") {
    SlurmNode node;
    node.add(1, "", "", {"SLURM_JOB_GPUS=0"});
    node.add(10, "4711", "batch", {"PATH=/bin", "SLURM_JOB_GPUS=0,2-3"});
    CHECK(node.look() == Jobs{{"4711", {0, 1, 3}}});
    CHECK(node.asked == std::map<std::uint32_t, int>{{10, 1}});
}

TEST_CASE("a step has its own GPUs, not those of the script on another node") {
    SlurmNode node;
    node.add(10, "4711", "0", {"SLURM_JOB_GPUS=0,1", "SLURM_STEP_GPUS=3"});
    node.add(11, "4711", "1", {"SLURM_JOB_GPUS=0,1", "SLURM_STEP_GPUS=2"});
    node.add(12, "4711", "2", {"SLURM_JOB_GPUS=0,1"});
    node.add(13, "4711", "extern", {"SLURM_JOB_GPUS=0,1", "SLURM_STEP_GPUS=1"});
    CHECK(node.look() == Jobs{{"4711", {0, 1}}});
}

TEST_CASE("a step is asked until it answers, by a few processes, and then no more") {
    SlurmNode node;
    for (std::uint32_t tgid = 10; tgid < 30; tgid++) {
        node.add(tgid, "7", "batch", {});
    }
    CHECK(node.look().empty());
    CHECK(node.asked.size() == SlurmGpus::most_asked);
    for (std::uint32_t tgid = 10; tgid < 30; tgid++) {
        node.add(tgid, "7", "batch", {"SLURM_JOB_GPUS=1"});
    }
    node.asked.clear();
    CHECK(node.look() == Jobs{{"7", {2}}});
    CHECK(node.look() == Jobs{{"7", {2}}});
    CHECK(node.asked.size() == 1);
}

TEST_CASE("a job has no GPUs once its last process has ended, and one that comes has its own") {
    SlurmNode node;
    node.add(10, "1", "batch", {"SLURM_JOB_GPUS=1"});
    node.add(11, "2", "batch", {"SLURM_JOB_GPUS=2"});
    CHECK(node.look().size() == 2);
    node.running.erase(10);
    node.add(12, "3", "batch", {"SLURM_JOB_GPUS=3"});
    CHECK(node.look() == Jobs{{"2", {1}}, {"3", {0}}});
}

TEST_CASE("only GPUs of the node count, and lists that are none say nothing") {
    SlurmNode node;
    node.add(10, "1", "batch", {"SLURM_JOB_GPUS=0,9"});
    node.add(11, "2", "batch", {"SLURM_JOB_GPUS=mig"});
    node.add(12, "3", "batch", {"SLURM_JOB_GPUS="});
    CHECK(node.look() == Jobs{{"1", {3}}});
}

TEST_CASE("a job that is known by a SLUID has its number") {
    SlurmNode node;
    const std::string sluid = "s7QX2M9TABCD00";
    node.add(10, sluid, "batch", {"SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0"});
    CHECK(node.look() == Jobs{{"4711", {3}}});
    SECTION("unless that is no number") {
        SlurmNode other;
        other.add(10, sluid, "batch", {"SLURM_JOB_ID=my job", "SLURM_JOB_GPUS=0"});
        CHECK(other.look() == Jobs{{sluid, {3}}});
    }
}

TEST_CASE("a round goes by a few processes, and the next one waits for its time") {
    SlurmNode node;
    for (std::uint32_t tgid = 100; tgid < 100 + 3 * SlurmGpus::at_once; tgid++) {
        node.add(tgid, "", "", {});
    }
    node.add(1, "1", "batch", {"SLURM_JOB_GPUS=0"});  // looked at last
    for (int i = 0; i < 3; i++) {
        node.gpus.look(node.now);
        CHECK(node.gpus.jobs().empty());
    }
    node.gpus.look(node.now);
    CHECK(node.gpus.jobs().size() == 1);
    node.running.erase(1);
    for (int i = 0; i < 8; i++) {
        node.gpus.look(node.now + SlurmGpus::round - std::chrono::seconds(1));
    }
    CHECK(node.gpus.jobs().size() == 1);
    CHECK(node.look().empty());
}

TEST_CASE("a node without GPUs is not looked at") {
    bool is_asked = false;
    SlurmGpus gpus({}, {.processes =
                            [&] {
                                is_asked = true;
                                return std::vector<std::uint32_t>{};
                            },
                        .step_of = [](std::uint32_t) { return processes::SlurmStep(); },
                        .environment_of = [](std::uint32_t) -> Result<std::string> {
                            return fail("none", ENOENT);
                        }});
    gpus.look(std::chrono::hours(1));
    CHECK_FALSE(is_asked);
}
