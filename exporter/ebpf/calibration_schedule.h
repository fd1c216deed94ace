// When to measure again what probes cost: a machine that is busy when the exporter starts shows
// more than they do, so it is measured again when the machine is calmer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpusnoop::ebpf {

// Of all CPUs since the machine was started, in the kernel's units.
struct CpuTimes {
    std::uint64_t idle = 0;
    std::uint64_t all = 0;

    friend bool operator==(const CpuTimes &, const CpuTimes &) = default;
};

// From /proc/stat.
[[nodiscard]] std::optional<CpuTimes> cpu_times_in(std::string_view stat);

class CalibrationSchedule {
public:
    static constexpr std::chrono::seconds look_interval{10};
    static constexpr std::chrono::minutes least_interval{5};
    static constexpr double calm = 0.9;       // the share of CPU time that is idle
    static constexpr double calmer_by = 0.1;  // than at each measurement before

    // The first measurement was made at `now`: nobody knows how calm the machine was.
    CalibrationSchedule(std::chrono::nanoseconds now, CpuTimes times)
        : measured_at_(now), times_(times) {}

    // Ask each look_interval, and measure if it is due.
    [[nodiscard]] bool is_due(std::chrono::nanoseconds now, CpuTimes times);

    // It has been measured on a calm machine.
    [[nodiscard]] bool is_done() const { return calmest_ >= calm; }

private:
    std::chrono::nanoseconds measured_at_;
    CpuTimes times_;
    double calmest_ = 0;
};

}  // namespace gpusnoop::ebpf
