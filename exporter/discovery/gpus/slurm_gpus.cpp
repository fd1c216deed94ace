#include "exporter/discovery/gpus/slurm_gpus.h"

#include <algorithm>
#include <string_view>

#include "exporter/discovery/gpus/environment.h"
#include "exporter/discovery/gpus/gpu_evidence.h"

namespace gpusnoop::discovery {

namespace {

// Empty: processes of this step have neither variable.
std::string_view variable_of_step(std::string_view step_id) {
    if (step_id == "batch" || step_id == "interactive") {
        return "SLURM_JOB_GPUS";
    }
    return step_id.empty() || step_id == "extern" ? "" : "SLURM_STEP_GPUS";
}

// As the label of processes has it (probes/frame/processes/process_identity.h).
std::string job_of(const std::string &in_cgroup, std::string_view environment) {
    const auto number = variable(environment, "SLURM_JOB_ID");
    if (!processes::is_sluid(in_cgroup) || !number) {
        return in_cgroup;
    }
    const std::string text = "SLURM_JOB_ID=" + std::string(*number);
    const std::string_view valid = processes::slurm_job_id_in(text);
    return valid.empty() ? in_cgroup : std::string(valid);
}

}  // namespace

void SlurmGpus::look(std::chrono::nanoseconds now) {
    if (!is_in_round_) {
        if (gpus_.empty() || (has_begun_ && now - began_ < round)) {
            return;
        }
        has_begun_ = true;
        began_ = now;
        begin_round();
    }
    for (std::size_t i = 0; i < at_once && !to_look_at_.empty(); i++) {
        look_at(to_look_at_.back());
        to_look_at_.pop_back();
    }
    if (to_look_at_.empty()) {
        end_round();
    }
}

void SlurmGpus::begin_round() {
    is_in_round_ = true;
    to_look_at_ = node_.processes();
    for (auto &[key, step] : steps_) {
        step.is_there = false;
        step.asked = 0;
    }
}

void SlurmGpus::end_round() {
    is_in_round_ = false;
    std::erase_if(steps_, [](const auto &entry) { return !entry.second.is_there; });
    jobs_.clear();
    for (const auto &[key, step] : steps_) {
        if (step.is_known) {
            jobs_[step.job].insert(step.gpus.begin(), step.gpus.end());
        }
    }
}

void SlurmGpus::look_at(std::uint32_t tgid) {
    const processes::SlurmStep of = node_.step_of(tgid);
    if (of.job_id.empty() || variable_of_step(of.step_id).empty()) {
        return;
    }
    const StepKey key{of.job_id, of.step_id};
    if (steps_.size() >= most_steps && !steps_.contains(key)) {
        return;
    }
    Step &step = steps_[key];
    step.is_there = true;
    if (!step.is_known && step.asked < most_asked) {
        step.asked++;
        step.is_known = ask(tgid, of, step);
    }
}

bool SlurmGpus::ask(std::uint32_t tgid, const processes::SlurmStep &of, Step &step) const {
    const auto environment = node_.environment_of(tgid);
    if (!environment || environment->size() > max_environment_bytes) {
        return false;
    }
    const auto list = variable(*environment, variable_of_step(of.step_id));
    const auto minors = list ? slurm_minors(*list) : std::nullopt;
    if (!minors) {
        return false;
    }
    step.job = job_of(of.job_id, *environment);
    for (const Gpu &gpu : gpus_) {
        // Of a divided GPU, Slurm counts the instances.
        if (!gpu.mig && minors->contains(gpu.minor)) {
            step.gpus.insert(gpu.index);
        }
    }
    return true;
}

}  // namespace gpusnoop::discovery
