// What the part keeps of a process and of its refusals. For the files of this folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "exporter/base/rate_limit.h"
#include "exporter/probes/cuda/out_of_memory/out_of_memory.h"
#include "exporter/probes/cuda/out_of_memory/verdict.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/allocations/call_sites.h"

namespace gpusnoop::probes {

inline constexpr std::uint64_t oom_second_ns = 1'000'000'000;
// A retry that comes later than this after the last refusal repairs nothing, nor does one of a
// thread that is refused for so long.
inline constexpr std::uint64_t repaired_within_ns = oom_second_ns;
inline constexpr std::uint64_t longest_pending_ns = 3 * oom_second_ns;
// PyTorch's refusals come from another probe, so much later.
inline constexpr std::uint64_t torch_is_late_ns = oom_second_ns / 10;

// Each look can visit thousands of allocations and all processes.
inline constexpr std::uint32_t looks_per_process = 8;

inline std::chrono::nanoseconds monotonic_time(std::uint64_t ns) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
}

using SiteBytes = std::vector<std::pair<Site, std::uint64_t>>;

// A refusal that may still be repaired.
struct CudaOutOfMemory::Pending {
    std::int32_t device = 0;
    std::uint64_t first_ns = 0;
    std::uint64_t last_ns = 0;
    std::uint64_t looked_ns = 0;
    std::uint64_t repaired_ns = 0;  // 0: it is not
    std::uint64_t failed = 0;       // calls
    std::uint64_t refused = 0;      // by PyTorch's allocator: then nothing repairs it
    Site site;
    SiteBytes sites;
    // The figures in `event` are the first ones that the process read after it was refused.
    bool has_later_figures = false;
    OutOfMemory event;

    // Repaired, or final.
    [[nodiscard]] bool is_over(std::uint64_t until_ns) const {
        if (repaired_ns != 0) {
            return until_ns >= repaired_ns + torch_is_late_ns;
        }
        return until_ns >= last_ns + repaired_within_ns ||
               until_ns >= first_ns + longest_pending_ns;
    }
};

struct CudaOutOfMemory::State final : PartState {
    static constexpr Part part = Part::out_of_memory;

    struct Figures {
        std::uint64_t free = 0;
        std::uint64_t total = 0;
        std::uint64_t at_ns = 0;
        std::uint64_t held = 0;  // by the process on that device

        [[nodiscard]] MemoryFigures seen_from(std::uint64_t ns) const {
            return {
                .free = free, .total = total, .age = monotonic_time(ns) - monotonic_time(at_ns)};
        }
        // The process holds so much at another moment: is what it read of that moment, too? Other
        // threads may have got or freed a little.
        [[nodiscard]] bool differ_from(std::uint64_t held_then) const {
            return (held < held_then ? held_then - held : held - held_then) > total / 128;
        }
    };
    struct Sample {
        std::chrono::nanoseconds at{};
        std::map<std::int32_t, std::uint64_t> bytes{};  // by device
    };
    struct Event {
        std::uint64_t number = 0;
        std::uint64_t first_ns = 0;
        std::uint64_t last_ns = 0;
    };

    std::map<std::uint32_t, Pending> pending;  // by thread
    std::map<std::int32_t, Figures> figures;   // by device, as it read them last
    std::deque<Sample> samples;                // the oldest first
    std::map<std::int32_t, Event> last;        // by device
    // When it last got or freed much memory, by device.
    std::map<std::int32_t, std::uint64_t> changed_ns;
    RateLimit looks{looks_per_process};

    // How much more the process holds on these devices than at the oldest sample.
    void add_growth(MemoryHolder &holder, auto &&is_there, std::uint64_t now_ns) const {
        if (samples.empty() || samples.front().at >= monotonic_time(now_ns)) {
            return;
        }
        std::int64_t before = 0;
        for (const auto &[device, bytes] : samples.front().bytes) {
            before += is_there(device) ? static_cast<std::int64_t>(bytes) : 0;
        }
        holder.growth = static_cast<std::int64_t>(holder.on_gpu()) - before;
        holder.growth_over = monotonic_time(now_ns) - samples.front().at;
    }
};

}  // namespace gpusnoop::probes
