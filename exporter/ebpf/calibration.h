// What a probe on a function costs on this machine, measured on functions of the exporter itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "bpf/lib/cost.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/features.h"

namespace gpusnoop::ebpf {

// When to measure again what probes cost: a machine that is busy when the exporter starts shows
// more than they do, so it is measured again when the machine is calmer.

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

// By how the probe is attached. A way that was not measured is missing.
using ProbeCosts = std::map<AttachMode, probe_costs>;

// What a call takes, in nanoseconds, by what is done at it: the least of some batches of calls, as
// nothing else that the machine does makes a call faster.
struct LeastTimes {
    static constexpr double none = std::numeric_limits<double>::infinity();
    double untraced = none;
    double entry = none;
    double stepped_entry = none;
    double call = none;      // its entry and its end
    double recorded = none;  // and a record
    double stack = none;     // and its stack

    // What was the least in either.
    void merge(const LeastTimes &other);
};

// The parts of the cost: what each adds to the one before, and no less than nothing.
[[nodiscard]] probe_costs costs_of(const LeastTimes &times);

// Measures on a thread of its own, because the kernel takes longer to attach than the measurement
// does; again, up to nine times, when the machine is calmer (CalibrationSchedule).
class Calibration {
public:
    // Calls `on_measured` on that thread, after each measurement. Without `sees_returns`, return
    // probes are left out.
    Calibration(std::vector<AttachMode> modes, bool sees_returns,
                std::function<void(const ProbeCosts &)> on_measured);
    // Waits for the thread, which ends soon then.
    ~Calibration() = default;
    Calibration(const Calibration &) = delete;
    Calibration &operator=(const Calibration &) = delete;

    struct Measured {
        ProbeCosts costs;
        // Available if all modes were measured; else the log says why, too.
        Feature feature{"probe_cost", true, ""};
    };
    // Nothing until all modes have been tried. For any thread.
    [[nodiscard]] std::optional<Measured> measured() const;

private:
    void run(const std::stop_token &stop);
    void measure(const std::stop_token &stop);
    void publish();

    const std::vector<AttachMode> modes_;
    const bool sees_returns_;
    const std::function<void(const ProbeCosts &)> on_measured_;
    mutable std::mutex mutex_;
    std::optional<Measured> measured_;
    // Of the thread.
    double untraced_ = LeastTimes::none;
    std::map<AttachMode, LeastTimes> least_;
    Feature feature_{"probe_cost", true, ""};
    std::jthread thread_;
};

}  // namespace gpusnoop::ebpf
