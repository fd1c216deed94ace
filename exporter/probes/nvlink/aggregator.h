// Counts calls of the NVIDIA driver's nvlink_* helpers. No BPF here: records in, families out.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "bpf/nvlink.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

// By enum nvlink_op.
inline constexpr std::array<std::string_view, NVLINK_OP_COUNT> nvlink_helpers = {
    "nvlink_strcpy", "nvlink_memcpy", "nvlink_memset"};

struct NvlinkFamilies {
    series::Family &calls, &bytes, &duration;
};

NvlinkFamilies make_nvlink_families(series::FamilySet &set);

// For a trace.
using OnHelper = std::function<void(const nvlink_record &, const ProcessIdentity &)>;

struct NvlinkProcess : KnownProcess {
    struct Slots {
        series::Slot calls, bytes, duration;
    };
    std::array<std::optional<Slots>, NVLINK_OP_COUNT> slots;  // by op
};

class NvlinkAggregator : public CountingAggregator<make_nvlink_families, NvlinkProcess> {
public:
    using CountingAggregator::CountingAggregator;

    // Its op is less than NVLINK_OP_COUNT. The first record of a thread has details of its process.
    // With `trace`, the record is passed on instead of counted.
    void on_record(const nvlink_record &record, const process_details *details = nullptr,
                   const OnHelper &trace = nullptr);
};

}  // namespace gpusnoop::probes
