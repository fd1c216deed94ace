#include "exporter/probes/nvlink_aggregator.h"

namespace gpusnoop::probes {

namespace {

// By enum nvlink_op.
constexpr std::array<const char *, NVLINK_OP_COUNT> op_names = {"strcpy", "memcpy", "memset"};

}  // namespace

NvlinkFamilies make_nvlink_families(series::FamilySet &set) {
    constexpr double nanoseconds = 1e9;
    const std::vector<series::Label> of_op = {{"op", true}};
    return {
        .calls = set.counter("nvlink_helper_calls_total",
                             "Calls of nvlink_strcpy, nvlink_memcpy and nvlink_memset, helpers "
                             "inside the NVIDIA driver (link training, ioctls): not NVLink "
                             "traffic.",
                             of_op),
        .bytes = set.counter("nvlink_helper_bytes_total",
                             "Bytes that the helpers inside the driver were asked to copy or to "
                             "set, of strings up to 4096 each: not NVLink traffic.",
                             of_op),
        .duration = set.histogram(
            "nvlink_helper_duration_seconds", "Time inside a call of the helpers.", of_op,
            {100, 200, 500, 1'000, 2'000, 5'000, 10'000, 100'000, 1'000'000, 10'000'000},
            nanoseconds),
    };
}

void NvlinkAggregator::on_record(const nvlink_record &record) {
    const Callers::Caller &caller = callers_.find(record.tgid, record.identity);
    const auto [found, is_new] = slots_.try_emplace({caller.owner, record.op});
    Slots &slots = found->second;
    if (is_new) {
        series::LabelValues labels = caller.labels;
        labels.emplace_back(op_names.at(record.op));
        slots = {.calls = families_.calls.slot(caller.owner, labels),
                 .bytes = families_.bytes.slot(caller.owner, labels),
                 .duration = families_.duration.slot(caller.owner, labels)};
    }
    families_.calls.add(slots.calls, 1);
    families_.bytes.add(slots.bytes, record.bytes);
    families_.duration.observe(slots.duration, record.duration_ns);
}

void NvlinkAggregator::tidy(std::chrono::nanoseconds now) {
    for (const series::Owner owner : callers_.tidy(now)) {
        std::erase_if(slots_, [&](const auto &entry) { return entry.first.first == owner; });
        family_set_.remove(owner);
    }
}

}  // namespace gpusnoop::probes
