// What a probe on a function costs on this machine, measured on functions of the exporter itself.
#pragma once

#include <map>
#include <span>
#include <thread>
#include <vector>

#include "bpf/lib/cost.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/uprobe.h"

namespace gpusnoop::ebpf {

// Of a part of the cost, in nanoseconds, by batches of calls: the median, or 0 if that is less.
[[nodiscard]] std::uint32_t cost_of(std::vector<double> batches);

class Calibration {
public:
    // Takes a few hundredths of a second for each mode. A mode that cannot be measured is missing
    // in the costs; the log and the feature say why.
    Calibration(std::span<const AttachMode> modes, const Features &features);

    [[nodiscard]] const std::map<AttachMode, probe_costs> &costs() const { return costs_; }
    // Available if all modes were measured.
    [[nodiscard]] const Feature &feature() const { return feature_; }

private:
    std::map<AttachMode, probe_costs> costs_;
    Feature feature_{"probe_cost", true, ""};
    // Detaches, for which the kernel takes longer than the measurement.
    std::jthread detaching_;
};

}  // namespace gpusnoop::ebpf
