// Counts launches by kernel and shape, and the time that those by calls take their callers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/launches/kernel_names.h"
#include "exporter/probes/cuda/launches/launch_shape.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

// Counts launches, but adds them to their series only when their kernel has its name.
class CudaLaunches {
public:
    CudaLaunches(series::FamilySet &families, const CudaProcessTable &processes,
                 const CudaCallbacks &callbacks, std::chrono::nanoseconds started);

    static void started(Process &process);
    // For once a second.
    void tidy(std::chrono::nanoseconds now);
    // The process, which has ended, can be forgotten.
    [[nodiscard]] static bool is_done_with(const Process &process);

    void on_launch(Process &process, const cuda_launch_record &record);
    // One whose duration is unknown.
    void on_unseen_launch(Process &process, const cuda_launch_record &record);
    // What a launch of a graph launched. A kernel has the name that its handle had when that launch
    // began.
    void add_by_graph(Process &process, LaunchShape shape, std::uint64_t amount,
                      std::uint64_t began_ns);
    // Notes the meaning of a handle.
    void on_kernel(Process &process, const cuda_kernel_record &record);
    void on_name(Process &process, const cuda_name_record &record);
    void on_kernel_name(const symbols::CudaKernelReply &answer);
    // Names come in batches: one pass counts the waiting launches of all of them.
    void count_named();

    // How long its launches were not seen, since it began.
    void note_unseen(Process &process);

    // `launch_every`: of a thread's launches, each such one has a duration; 0: all have.
    static void add_gauges(series::FamilySet &gauges, std::uint32_t launch_every);

private:
    struct Count;
    struct State;

    void add(Process &process, LaunchShape shape, std::uint64_t amount, std::uint64_t began_ns);
    [[nodiscard]] series::Slot slot_of(const Process &process, const LaunchShape &shape,
                                       const std::string &name);
    void count_launches(Process &process, const LaunchShape &shape, Count &count,
                        std::uint64_t amount);
    void count_waiting(Process &process);
    void count(Process &process, const cuda_launch_record &record, bool has_duration);
    void observe(Process &process, std::int32_t device, const cuda_launch_record &record,
                 bool has_duration);
    void note_named(Process &process);
    void give_up_names(Process &process);
    void ask(const Process &process, const KernelNames::Request &request);

    LaunchFamilies families_;
    const CudaProcessTable &processes_;
    const CudaCallbacks &callbacks_;
    std::chrono::nanoseconds now_;  // of the last tidy(), or the start
    std::uint64_t next_ticket_ = 1;
    std::unordered_map<std::uint64_t, std::pair<ProcessKey, KernelNames::Request>> tickets_;
    std::vector<ProcessKey> named_;  // processes with launches whose names have come
};

}  // namespace gpusnoop::probes
