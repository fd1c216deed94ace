#include "exporter/probes/nvlink/aggregator.h"

namespace gpusnoop::probes {

NvlinkFamilies make_nvlink_families(series::FamilySet &set) {
    const std::vector<series::Label> of_op = {{"op", true}};
    return {
        .calls = set.counter("nvlink_helper_calls_total",
                             "Calls of nvlink_strcpy, nvlink_memcpy and nvlink_memset, internal "
                             "helpers of the NVIDIA driver (link training, ioctls). Not NVLink "
                             "traffic.",
                             of_op),
        .bytes = set.counter("nvlink_helper_bytes_total",
                             "Bytes that these internal helpers of the driver were asked to copy "
                             "or set, up to 4096 per string. Not NVLink traffic.",
                             of_op),
        .duration = set.histogram(
            "nvlink_helper_duration_seconds",
            "Duration of each call of the internal helpers of the driver.", of_op,
            {100, 200, 500, 1'000, 2'000, 5'000, 10'000, 100'000, 1'000'000, 10'000'000}, 1e9),
    };
}

void NvlinkAggregator::on_record(const nvlink_record &record, const process_details *details,
                                 const OnHelper &trace) {
    NvlinkProcess &process = processes_.of(record.tgid, record.identity, details);
    if (trace) {
        return trace(record, process);
    }
    auto &slots = process.slots.at(record.op);
    if (!slots) {
        series::LabelValues labels = process.labels;
        labels.emplace_back(
            nvlink_helpers.at(record.op).substr(std::string_view("nvlink_").size()));
        slots = {.calls = of_.calls.slot(process.owner, labels),
                 .bytes = of_.bytes.slot(process.owner, labels),
                 .duration = of_.duration.slot(process.owner, labels)};
    }
    of_.calls.add(slots->calls, 1);
    of_.bytes.add(slots->bytes, record.bytes);
    of_.duration.observe(slots->duration, record.duration_ns);
}

}  // namespace gpusnoop::probes
