// What the CUDA probe knows of one process: which one it is, and a place for what each part of the
// probe keeps of it.
#pragma once

#include <algorithm>
#include <array>
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
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/probes/frame/process_table.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

// How a process has its CUDA runtime. Of several ways, the first.
enum class Linkage : std::uint8_t { shared, statically, driver_only, unknown };

// The parts that keep something of each process, and what they keep: a struct that only the part
// knows, with its own `static constexpr Part part`.
enum class Part : std::uint8_t { memory, memory_counters, call_sites, launches, copies, errors };
inline constexpr std::size_t part_count = 6;

struct PartState {
    PartState() = default;
    virtual ~PartState() = default;
    PartState(const PartState &) = delete;
    PartState &operator=(const PartState &) = delete;
};

struct Process : KnownProcess {
    symbols::Executable executable;
    // All its calls were seen: then a pointer that is in no live allocation is host memory.
    bool seen_from_start = false;
    Linkage linkage = Linkage::unknown;
    // The label `gpu` of a device of the process, by its ordinal; of one that is not known.
    std::function<std::string(std::optional<std::uint32_t>)> gpu_name = [](auto) {
        return "unknown";
    };
    // In here and not in a table of each part: a launch would pay for the look-up.
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

// A process can use as many numbers of devices as it likes; what is past it is an unknown device.
inline constexpr std::int32_t max_devices = CUDA_KNOWN_DEVICES;

// The device of a record. A thread that was never seen to choose one is on the first, if we saw all
// that the process did.
[[nodiscard]] inline std::int32_t device_of(const Process &process, std::int32_t device) {
    if (device == CUDA_DEVICE_UNCHOSEN) {
        return process.seen_from_start ? 0 : CUDA_DEVICE_UNCHOSEN;
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

// For the tables of slots: the number of a device, and what else tells the slots of one family
// apart.
constexpr std::uint64_t slot_key(std::int32_t device, std::size_t one, std::size_t two = 0) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(device)) << 32) | (one << 8) |
           two;
}

}  // namespace gpusnoop::probes
