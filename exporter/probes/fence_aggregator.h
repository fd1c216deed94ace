// The fence probe's records -> counters and histograms. No BPF here: records in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bpf/fence.h"
#include "exporter/probes/fence_families.h"
#include "exporter/probes/traced_processes.h"

namespace gpusnoop::probes {

struct FenceSettings {
    series::Budget budget;
    bool pid_label = false;
    std::chrono::nanoseconds retention{};
};

// All times are those of the kernel's monotonic clock.
class FenceAggregator {
public:
    // `look_up` is for the process of a record; see process_identity.h.
    FenceAggregator(FenceSettings settings, std::function<bool(ProcessIdentity &)> look_up);

    void on_record(std::span<const std::byte> bytes);
    // Lets go of what ended. For once a second.
    void tidy(std::chrono::nanoseconds now);

    [[nodiscard]] TracedProcesses &processes() { return processes_; }
    [[nodiscard]] const series::FamilySet &families() const { return family_set_; }
    // Records that were none of ours, or of the wrong size.
    [[nodiscard]] std::uint64_t undecodable() const { return undecodable_; }

private:
    FenceSettings settings_;
    series::FamilySet family_set_;
    FenceFamilies families_;
    TracedProcesses processes_;
    std::uint64_t undecodable_ = 0;
};

}  // namespace gpusnoop::probes
