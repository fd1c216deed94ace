// What a probe on a function costs on this machine, measured on functions of the exporter itself.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "bpf/lib/cost.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/features.h"

namespace gpusnoop::ebpf {

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
