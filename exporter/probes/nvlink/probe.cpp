#include "exporter/probes/nvlink/probe.h"

#include <utility>

#include "exporter/config/reader.h"
#include "exporter/ebpf/attach/kprobe.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/nvlink/aggregator.h"
#include "exporter/probes/nvlink/driver_functions.h"
#include "nvlink.skel.h"

namespace gpusnoop::probes {

namespace {

// Up while the driver has one of the helpers.
class NvlinkProbe final : public BpfProbe<nvlink_bpf, NvlinkAggregator> {
public:
    // `on_call`: for a trace.
    explicit NvlinkProbe(const config::Config &config, OnHelper on_call = nullptr)
        : BpfProbe("nvlink", config),
          ring_bytes_(config.of<NvlinkConfig>().ring_bytes),
          on_call_(std::move(on_call)) {}

private:
    Result<> configure(nvlink_bpf &skeleton) override {
        skeleton.rodata->kernel_stack_bytes = ebpf::kernel_stack_bytes();
        ebpf::choose_kprobe_programs(programs_of(skeleton));
        return ebpf::check_kprobes();
    }

    std::vector<ProbeRing> rings(nvlink_bpf &skeleton) override {
        return {ring_of_calls<nvlink_first_record>(
            skeleton.maps.nvlink_events, ring_bytes_,
            [this](const nvlink_record &record, const process_details *details) {
                if (record.op >= NVLINK_OP_COUNT) {
                    return false;
                }
                aggregator().on_record(record, details, on_call_);
                return true;
            })};
    }

    Result<> attach(nvlink_bpf &skeleton) override {
        functions_.start(programs_of(skeleton));
        return {};
    }

    static ebpf::KprobePrograms programs_of(const nvlink_bpf &skeleton) {
        const auto &programs = skeleton.progs;
        return {programs.nvlink_begin, programs.nvlink_end, programs.nvlink_link_in,
                programs.nvlink_link_out};
    }

    std::uint32_t ring_bytes_;
    OnHelper on_call_;
    DriverFunctions functions_{nvlink_helpers,
                               "no module has nvlink_strcpy, nvlink_memcpy or nvlink_memset: no "
                               "NVIDIA driver with NVLink is loaded",
                               rescan_interval(), state()};
};

void read_nvlink(config::Section nvlink, config::Config &config) {
    NvlinkConfig value;
    nvlink.boolean("enabled", value.enabled);
    nvlink.ring_bytes("ring_bytes", value.ring_bytes);
    nvlink.finish();
    config.set(value);
}

constexpr trace::Kind nvlink_trace = {
    .help = "Calls of the NVIDIA driver's nvlink_* helpers.",
    .make = trace::make<trace::RecordTracer<NvlinkProbe, nvlink_record, event_of>>};

}  // namespace

trace::Event event_of(const nvlink_record &record, const ProcessIdentity &process,
                      std::int64_t clock_offset_ns) {
    trace::Event event;
    event.time_ns = trace::began_ns(record.ended_ns, record.duration_ns, clock_offset_ns);
    event.duration_ns = record.duration_ns;
    trace::set_caller(event, record.tgid, record.tid, process);
    event.kind = "function";
    event.name = nvlink_helpers.at(record.op);
    event.details = {{"bytes", std::uint64_t{record.bytes}}};
    return event;
}

constinit const ProbeKind nvlink_kind = {
    .name = "nvlink",
    .title = "NVLink helpers of the driver",
    .make = make_if_enabled<NvlinkProbe, NvlinkConfig>,
    .read = read_nvlink,
    .needs_kprobes = true,
    .declare = declare_families<make_nvlink_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .unmatched = true,
               .lost = lost_for({LOST_ring_full, LOST_no_state}),
               .attach_failures = kernel_failures},
    .trace = &nvlink_trace,
};

}  // namespace gpusnoop::probes
