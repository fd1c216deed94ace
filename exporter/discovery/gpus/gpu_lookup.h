// Finds the GPUs of processes; no process can block the caller.
//
// gpu_evidence.h collects what shows which GPUs a process may use, and visible_gpus.h decides. The
// device programs of the process's cgroups come from a BPF iterator (bpf/device_programs.bpf.c,
// device_program_reader.h), and are interpreted for each GPU (device_programs.h). The label `gpu`
// is determined when a process appears, and once more when it is needed, if the process had not
// opened its GPUs by then (probes/cuda/gpu_names.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/discovery/gpus/device_program_reader.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/discovery/gpus/slurm_gpus.h"
#include "exporter/discovery/gpus/visible_gpus.h"
#include "exporter/processes/process_reader.h"

namespace gpusnoop::discovery {

// A process owns its environment and devices, so reading them touches its memory and file systems,
// and it can block the reader forever: see ProcessReader. Used by one thread.
class GpuLookup {
public:
    // `patience` is for a process, three times of it for those of a user within 10 s.
    GpuLookup(std::vector<Gpu> gpus, std::chrono::milliseconds patience);
    // Its parts refer to it.
    GpuLookup(const GpuLookup &) = delete;
    GpuLookup &operator=(const GpuLookup &) = delete;

    [[nodiscard]] const std::vector<Gpu> &gpus() const { return gpus_; }

    // ETIMEDOUT: no answer in time. A node with at most one GPU needs no reading.
    [[nodiscard]] Result<VisibleGpus> of(std::uint32_t tgid);
    // Which GPUs Slurm's jobs have: for every drain.
    void look_for_jobs(std::chrono::nanoseconds now) { slurm_.look(now); }
    [[nodiscard]] const std::map<std::string, std::set<unsigned>> &of_slurm_jobs() const {
        return slurm_.jobs();
    }
    // Ends the child that reads if it was idle for so long.
    void rest(std::chrono::seconds unused) { reader_.rest(unused); }

private:
    // At most a byte more than max_environment_bytes. ETIMEDOUT: no answer in time.
    [[nodiscard]] Result<std::string> environment_of(std::uint32_t tgid);

    std::vector<Gpu> gpus_;
    std::unique_ptr<DeviceProgramReader> programs_;  // null: it is not needed, or cannot be had
    processes::ProcessReader reader_;
    LineLimit lines_;
    SlurmGpus slurm_;
};

}  // namespace gpusnoop::discovery
