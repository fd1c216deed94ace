// The GPUs that Slurm has given to the jobs of this node, used or not.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/processes/cgroup_owner.h"

namespace gpusnoop::discovery {

// Slurm writes a job's GPUs into the environment of its processes: SLURM_JOB_GPUS for the script of
// a batch or interactive job, SLURM_STEP_GPUS for the tasks of a step. (A step also inherits the
// script's variable, which is about the script's node.) One process of each step is asked.
//
// A job can change its own environment, and so what is shown of itself, within the node's GPUs.
class SlurmGpus {
public:
    // What the node says; each may fail, or not be there.
    struct Node {
        std::function<std::vector<std::uint32_t>()> processes;
        std::function<processes::SlurmStep(std::uint32_t tgid)> step_of;
        std::function<Result<std::string>(std::uint32_t tgid)> environment_of;
    };

    SlurmGpus(std::vector<Gpu> gpus, Node node) : gpus_(std::move(gpus)), node_(std::move(node)) {}

    // Goes on with the present round over all processes of the node, by a few processes: for every
    // drain, as its work must not delay the drain. A round begins when its time has come.
    void look(std::chrono::nanoseconds now);

    // Host indices of GPUs, by job, as of the last whole round.
    [[nodiscard]] const std::map<std::string, std::set<unsigned>> &jobs() const { return jobs_; }

    static constexpr std::chrono::seconds round = std::chrono::seconds(60);
    static constexpr std::size_t at_once = 16;       // processes
    static constexpr unsigned most_asked = 4;        // processes of a step, in a round
    static constexpr std::size_t most_steps = 4096;  // on the node; others are left out

private:
    using StepKey = std::pair<std::string, std::string>;  // job, step
    struct Step {
        std::string job;  // its number, where the cgroup has a SLUID
        std::set<unsigned> gpus;
        bool is_known = false;
        bool is_there = false;  // in this round
        unsigned asked = 0;     // in this round
    };

    void begin_round();
    void end_round();
    void look_at(std::uint32_t tgid);
    // False: its environment says nothing of this kind, or cannot be read.
    [[nodiscard]] bool ask(std::uint32_t tgid, const processes::SlurmStep &of, Step &step) const;

    std::vector<Gpu> gpus_;
    Node node_;
    std::map<StepKey, Step> steps_;
    std::map<std::string, std::set<unsigned>> jobs_;
    std::vector<std::uint32_t> to_look_at_;
    bool is_in_round_ = false;
    std::chrono::nanoseconds began_{};
    bool has_begun_ = false;
};

}  // namespace gpusnoop::discovery
