#include "exporter/probes/host_block/probe.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/host_block/aggregator.h"
#include "exporter/symbols/names/syscall_names.h"
#include "exporter/trace/lines.h"
#include "host_block.skel.h"

namespace gpusnoop::probes {

namespace {

// For a trace: drain() passes on each request that takes `min_duration`, with its device's name.
struct BlockTrace {
    std::chrono::nanoseconds min_duration{};
    std::function<void(const block_record &, const std::string &device, const ProcessIdentity &)>
        on_request;
};

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
        return ring_of_trace<block_record>(
            skeleton.maps.block_events,
            [this](const auto &record) {
                return record.operation < BLOCK_OPERATIONS && trace_.on_request != nullptr;
            },
            [this](const auto &record, const auto &process) {
                trace_.on_request(record, names_.of(record.device), process);
            });
    }

    // The ends first, so that each request that is seen to begin is seen to end.
    Result<> attach(host_block_bpf &skeleton) override {
        const std::vector<const bpf_program *> programs = {
            skeleton.progs.block_complete, skeleton.progs.block_merge, skeleton.progs.block_requeue,
            skeleton.progs.block_issue, skeleton.progs.block_insert};
        return attach_following(programs, "requests to block devices");
    }

    void refresh() override {
        read_counts<block_key, block_times>(skeleton().maps.block_counts, "block requests",
                                            [&](const block_key &key, const block_times &times) {
                                                aggregator().on_times(key, times,
                                                                      names_.of(key.device));
                                            });
    }

    BlockTrace trace_;
    BlockDeviceNames names_;
};

constexpr KernelNeed block_needs[] = {
    {.thing = "the tracepoints of block requests",
     .reason = "the kernel is built without CONFIG_BLOCK",
     .costs = "the probe fails",
     .is_met = has_tracepoints<"block_rq_insert", "block_rq_merge", "block_rq_requeue",
                               "block_rq_issue", "block_rq_complete">},
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

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

namespace {

using namespace std::chrono_literals;

constexpr Option block_min_duration_option = {.name = "--min-duration",
                                              .takes = Option::Takes::duration,
                                              .help =
                                                  "Only requests that take at least this long: "
                                                  "10ms, 1s."};
constexpr Option block_options[] = {block_min_duration_option};

class BlockTracer final : public HostTracer {
public:
    explicit BlockTracer(const Setup &setup) : HostTracer(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        return std::make_unique<probes::HostBlockProbe>(
            setup().config, traced,
            probes::BlockTrace{
                .min_duration =
                    setup().options.duration_of(block_min_duration_option).value_or(0ms),
                .on_request = [this](const auto &record, const auto &device, const auto &process) {
                    write(event_of(record, device, process, clock_offset_ns()));
                }});
    }
};

// By blk_status_t (include/linux/blk_types.h).
constexpr std::array<std::string_view, 11> status_names = {
    "",       "not supported",        "timeout", "no space",   "transport",
    "target", "reservation conflict", "medium",  "protection", "resource",
    "I/O"};

std::string error_text(std::int32_t error) {
    if (error < 0) {
        return std::string(errno_name(-static_cast<std::uint32_t>(error)));
    }
    const auto status = static_cast<std::size_t>(error);
    return status < status_names.size() ? std::string(status_names.at(status))
                                        : "status " + std::to_string(status);
}

}  // namespace

Event event_of(const block_record &record, const std::string &device,
               const probes::ProcessIdentity &process, std::int64_t clock_offset_ns) {
    const std::uint64_t waited_ns = record.took_ns + record.queued_ns;
    Event event = make_event(began_ns(record.head.at_ns, waited_ns, clock_offset_ns),
                             record.head.tgid, record.tid, process, "op",
                             std::string(probes::block_operation_name(record.operation)));
    event.duration_ns = record.took_ns;
    event.details = {{"role", std::string(probes::followed_role_names.at(record.role))},
                     {"device", device},
                     {"bytes", std::uint64_t{record.bytes}},
                     {"queued_ns", std::uint64_t{record.queued_ns}},
                     {"error", text_or_null(error_text(record.error))}};
    return event;
}

constinit const Kind block_trace = {
    .name = "block",
    .help = "Requests to block devices by GPU processes and the processes they start.",
    .column = "OP",
    .options = block_options,
    .make = make<BlockTracer>};

}  // namespace gpusnoop::trace
