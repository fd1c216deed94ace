#include "exporter/probes/host_block/probe.h"

#include <string>
#include <utility>
#include <vector>

#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/host_switch.h"
#include "exporter/probes/frame/processes/process_counts.h"
#include "exporter/probes/host_block/aggregator.h"
#include "exporter/probes/host_block/devices.h"
#include "exporter/probes/host_block/trace.h"
#include "host_block.skel.h"

namespace gpusnoop::probes {

namespace {

class HostBlockProbe final : public HostProbe<host_block_bpf, HostBlockAggregator> {
public:
    // `trace`: instead of counts.
    HostBlockProbe(const config::Config &config, TracedProcessesPtr traced, BlockTrace trace = {})
        : HostProbe("host_block", config, std::move(traced)), trace_(std::move(trace)) {}

private:
    Result<> configure_programs(host_block_bpf &skeleton) override {
        skeleton.rodata->tracing = trace_.on_request != nullptr;
        skeleton.rodata->trace_from_ns = static_cast<std::uint64_t>(trace_.min_duration.count());
        return {};
    }

    std::vector<ProbeRing> rings(host_block_bpf &skeleton) override {
        bpf_map *const map = skeleton.maps.block_events;
        return {{map, bpf_map__max_entries(map), [this](auto bytes) {
                     const auto record = ebpf::decode<block_record>(bytes);
                     if (!record || record->operation >= BLOCK_OPERATIONS ||
                         record->role >= FOLLOWED_ROLES || !trace_.on_request) {
                         return false;
                     }
                     followed().drain();  // who the process is
                     trace_.on_request(
                         *record, names_.of(record->device),
                         aggregator().process_of({record->head.tgid, record->head.since_ns}));
                     return true;
                 }}};
    }

    // The ends first, so that each request that is seen to begin is seen to end.
    Result<> attach(host_block_bpf &skeleton) override {
        const std::vector<const bpf_program *> programs = {
            skeleton.progs.block_complete, skeleton.progs.block_merge, skeleton.progs.block_requeue,
            skeleton.progs.block_issue, skeleton.progs.block_insert};
        return attach_following(programs, "requests to block devices");
    }

    void refresh() override {
        read_process_counts<block_key, block_times>(
            skeleton().maps.block_counts, followed(), aggregator().processes(), "block requests",
            [&](const block_key &key, const block_times &times) {
                aggregator().on_times(key, times, names_.of(key.device));
            });
    }

    BlockTrace trace_;
    BlockDeviceNames names_;
};

constexpr KernelNeed block_needs[] = {
    {.thing = "the tracepoints of block requests",
     .reason = "the kernel is built without CONFIG_BLOCK",
     .costs = "the probe fails",
     .is_met =
         [](const KernelView &kernel, const config::Config & /*config*/) {
             return kernel.has_tracepoint("block_rq_insert") &&
                    kernel.has_tracepoint("block_rq_merge") &&
                    kernel.has_tracepoint("block_rq_requeue") &&
                    kernel.has_tracepoint("block_rq_issue") &&
                    kernel.has_tracepoint("block_rq_complete");
         }},
};

constexpr const trace::Kind *block_traces[] = {&trace::block_trace};

}  // namespace

constinit const ProbeKind host_block_kind = {
    .name = "host_block",
    .title = "Requests to block devices",
    .make = make_if_enabled<HostBlockProbe, HostBlockConfig>,
    .read_host = read_host_switch<HostBlockConfig>,
    .follows_processes = is_enabled<HostBlockConfig>,
    .kernel_needs = block_needs,
    .declare = declare_families<make_host_block_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .lost = lost_for({LOST_ring_full, LOST_process_table, LOST_table_full})},
    .named_traces = block_traces,
};

std::unique_ptr<Probe> make_block_tracer(const config::Config &config,
                                         const TracedProcessesPtr &traced, BlockTrace trace) {
    return std::make_unique<HostBlockProbe>(config, traced, std::move(trace));
}

}  // namespace gpusnoop::probes
