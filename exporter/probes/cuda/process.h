// The CUDA probe's data of one process: its identity, and the state of each part of the probe.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bpf/cuda/cuda.h"
#include "exporter/base/result.h"
#include "exporter/discovery/gpus/visible_gpus.h"
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/series/family.h"

namespace gpusnoop::discovery {
class GpuLookup;
}

namespace gpusnoop::probes {

// How a process uses the CUDA runtime. If in several ways, the first of these counts.
enum class Linkage : std::uint8_t { shared, statically, driver_only, unknown };

// The parts with a state for each process. Each state is a struct that only its part knows, with
// its own `static constexpr Part part`.
enum class Part : std::uint8_t {
    memory,
    memory_counters,
    call_sites,
    launches,
    graphs,
    copies,
    events,
    errors,
    out_of_memory,
    idle
};
inline constexpr std::size_t part_count = 10;

struct PartState {
    PartState() = default;
    virtual ~PartState() = default;
    PartState(const PartState &) = delete;
    PartState &operator=(const PartState &) = delete;
};

struct Process : KnownProcess {
    symbols::Executable executable;
    // All its calls were seen: then a pointer outside of all live allocations is host memory.
    bool is_complete = false;
    bool calls_driver = false;  // its calls to the driver are seen
    Linkage linkage = Linkage::unknown;
    std::uint64_t lost_before = 0;  // records, of any process, when it was first seen
    bool has_handed_over = false;   // its totals, as it has ended
    // The label `gpu` for a device's ordinal in the process, or for an unknown device.
    std::function<std::string(std::optional<std::uint32_t>)> gpu_name = [](auto) {
        return "unknown";
    };
    // Here instead of a table in each part, as a launch would pay for the lookup.
    std::array<std::unique_ptr<PartState>, part_count> parts;
};

using CudaProcessTable = ProcessTable<Process>;

template <typename State, typename... Args>
void add_state(Process &process, Args &&...args) {
    process.parts[static_cast<std::size_t>(State::part)] =
        std::make_unique<State>(std::forward<Args>(args)...);
}

template <typename State>
State &state_of(Process &process) {
    return static_cast<State &>(*process.parts[static_cast<std::size_t>(State::part)]);
}

template <typename State>
const State &state_of(const Process &process) {
    return static_cast<const State &>(*process.parts[static_cast<std::size_t>(State::part)]);
}

// A process can use any numbers of devices; a number over the limit is an unknown device.
inline constexpr std::int32_t max_devices = CUDA_KNOWN_DEVICES;

// Fills in all values that can be found in /proc for a process: its start time, names, container
// and GPUs.
void describe(Process &process, discovery::GpuLookup &gpus);

// The device of a record. A thread that was never seen to choose a device uses the first, if all
// calls of the process were seen.
[[nodiscard]] inline std::int32_t device_of(const Process &process, std::int32_t device) {
    if (device == CUDA_DEVICE_UNCHOSEN) {
        return process.is_complete ? 0 : CUDA_DEVICE_UNCHOSEN;
    }
    return device < max_devices ? std::max(device, CUDA_DEVICE_UNKNOWN) : CUDA_DEVICE_UNKNOWN;
}
// Its label `gpu`.
[[nodiscard]] std::string gpu_of(const Process &process, std::int32_t device);

// The process's labels and then `own`. Gauges always have the label pid.
[[nodiscard]] series::LabelValues labels_of(const Process &process,
                                            std::initializer_list<std::string_view> own);
[[nodiscard]] series::LabelValues gauge_labels_of(const Process &process,
                                                  std::initializer_list<std::string_view> own);

// The key in a table of slots: the number of a device, and the values that distinguish the slots of
// one family.
constexpr std::uint64_t slot_key(std::int32_t device, std::size_t one, std::size_t two = 0) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(device)) << 32) | (one << 8) |
           two;
}

// The label `gpu` of a process's devices, by several looks at the process.
// The first look can come before the process has opened its GPUs: CUDA does that in its first call.
// So as long as a look's answer depends on what is open, others follow when labels are asked for:
// at once, and then after one, two and four seconds.
class GpuNames {
public:
    // ESRCH: the process has ended, and what was seen before stays. Another error: no answer, which
    // tells nothing; it is asked again after a second.
    using Look = std::function<Result<discovery::VisibleGpus>()>;
    using Clock = std::chrono::steady_clock;

    GpuNames(discovery::VisibleGpus first, Look look,
             std::function<Clock::time_point()> now = Clock::now)
        : visible_(std::move(first)), look_(std::move(look)), now_(std::move(now)) {}

    [[nodiscard]] std::string name_of(std::optional<std::uint32_t> ordinal);

private:
    void look_again();

    static constexpr unsigned most_looks = 4;  // after the first: each may make others wait

    discovery::VisibleGpus visible_;
    Look look_;
    std::function<Clock::time_point()> now_;
    unsigned looks_ = 0;
    Clock::time_point next_look_{};
};

// When the call of a record ended.
// On the kernel's monotonic clock.
inline std::chrono::nanoseconds ended_at(const cuda_record &head) {
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(std::min<std::uint64_t>(head.ended_ns, INT64_MAX)));
}

}  // namespace gpusnoop::probes
