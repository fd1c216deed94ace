// Counts calls of the NVIDIA driver's nvlink_* helpers. No BPF here: records in, families out.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "bpf/nvlink.h"
#include "exporter/probes/frame/process_table.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct NvlinkFamilies {
    series::Family &calls, &bytes, &duration;
};

NvlinkFamilies make_nvlink_families(series::FamilySet &set);

// For a trace.
using OnHelper = std::function<void(const nvlink_record &, const ProcessIdentity &)>;

class NvlinkAggregator {
public:
    explicit NvlinkAggregator(const SeriesSettings &settings)
        : families_(settings.budget, settings.pid_label), processes_(families_, settings) {}

    // Its op is less than NVLINK_OP_COUNT. The first record of a thread has details of its process.
    // With `trace`, the record is passed on instead of counted.
    void on_record(const nvlink_record &record, const process_details *details = nullptr,
                   const OnHelper &trace = nullptr);

    [[nodiscard]] const series::FamilySet &families() const { return families_; }
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

private:
    struct Slots {
        series::Slot calls, bytes, duration;
    };
    struct Process : KnownProcess {
        std::array<std::optional<Slots>, NVLINK_OP_COUNT> slots;  // by op
    };

    series::FamilySet families_;
    NvlinkFamilies of_ = make_nvlink_families(families_);
    ProcessTable<Process> processes_;
};

}  // namespace gpusnoop::probes
