// Counts launches by kernel and shape, and the time that those by calls take their callers.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
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
#include "exporter/probes/frame/processes/user_room.h"
#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// For kernels and their shapes, of all processes together.
inline constexpr UserRoom::Limits room_for_launches{.bytes = std::size_t{192} << 20,
                                                    .bytes_of_user = std::size_t{96} << 20};

// Counts launches, but adds them to their series only when their kernel has its name.
class CudaLaunches {
public:
    CudaLaunches(series::FamilySet &families, const CudaProcessTable &processes,
                 const CudaCallbacks &callbacks, std::chrono::nanoseconds started,
                 const UserRoom::Limits &limits = room_for_launches);

    static void started(Process &process);
    // For once a second.
    void tidy(std::chrono::nanoseconds now);
    // The process, which has ended, can be forgotten.
    [[nodiscard]] static bool is_done_with(const Process &process);

    void on_launch(Process &process, const cuda_launch_record &record);
    // Launches that were counted where they enter the driver: how many by now. Returns how many are
    // new.
    std::uint64_t on_counted(Process &process, const cuda_launch_key &key,
                             const cuda_launch_count &count);
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

    // The launches that were not counted, since it began.
    void note_unseen(Process &process);

    static void add_gauges(series::FamilySet &gauges, const CudaProcessTable &processes);

    // All launches of the process so far, those that were not counted too.
    [[nodiscard]] static std::uint64_t launched(const Process &process);
    // The launches of them that were counted, and the devices that these ran on.
    struct Counted {
        std::uint64_t launches = 0;
        std::set<std::int32_t> devices;
    };
    [[nodiscard]] static Counted counted(const Process &process);

private:
    struct Count;
    struct State;
    // Of the launches that were not counted.
    struct Bound {
        std::uint64_t launches = 0;
        std::optional<series::Slot> slot{};
    };

    [[nodiscard]] bool find_room_for(Process &process, std::uint64_t kernel);
    void add(Process &process, LaunchShape shape, std::uint64_t amount, std::uint64_t began_ns);
    [[nodiscard]] series::Slot slot_of(const Process &process, const LaunchShape &shape,
                                       const std::string &name);
    void count_launches(Process &process, const LaunchShape &shape, Count &count,
                        std::uint64_t amount);
    void count_waiting(Process &process);
    // The slots of a device's durations and threads.
    const std::array<series::Slot, 2> &times_of(Process &process, std::int32_t device);
    void add_unseen(Process &process, std::uint64_t launches);
    void note_bound(const Process &process, const std::string &name, std::uint64_t launches,
                    Bound &bound);
    void note_named(Process &process);
    void give_up_names(Process &process);
    void ask(const Process &process, const KernelNames::Request &request);

    LaunchFamilies families_;
    const CudaProcessTable &processes_;
    const CudaCallbacks &callbacks_;
    std::shared_ptr<UserRoom> room_;
    std::chrono::nanoseconds now_;  // of the last tidy(), or the start
    std::uint64_t next_ticket_ = 1;
    std::unordered_map<std::uint64_t, std::pair<ProcessKey, KernelNames::Request>> tickets_;
    std::vector<ProcessKey> named_;  // processes with launches whose names have come
};

}  // namespace gpusnoop::probes
