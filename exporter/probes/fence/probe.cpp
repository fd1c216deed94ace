#include "exporter/probes/fence/probe.h"

#include <array>
#include <cstring>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/config/reader.h"
#include "exporter/ebpf/attach/kernel_hooks.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/system/machine.h"
#include "exporter/trace/lines.h"
#include "fence.skel.h"

namespace gpusnoop::probes {

namespace {

// Sets the offsets of the fields. All tracepoints of fences are of one class, with one record. Its
// layout has been the same since the tracepoints got their present names (commit f54d1867005c,
// "dma-buf: Rename struct fence to dma_fence", Linux 4.10): the context and the number in it have
// 32 bits, though struct dma_fence has 64. If a kernel widens them, the same code still works, as
// both traced architectures put the low half first.
Result<> set_layout(fence_bpf &skeleton) {
    const auto fields = ebpf::tracepoint_fields("dma_fence", "dma_fence_init");
    if (!fields) {
        return tl::unexpected(fields.error());
    }
    const auto set = [&](const char *name, std::uint32_t &where) {
        const auto found = fields->find(name);
        if (found == fields->end() || found->second.size < sizeof(std::uint32_t)) {
            return false;
        }
        where = found->second.offset;
        return true;
    };
    auto &rodata = *skeleton.rodata;
    if (!set("driver", rodata.driver_at) || !set("timeline", rodata.timeline_at) ||
        !set("context", rodata.context_at) || !set("seqno", rodata.seqno_at)) {
        return fail_unsupported(
            "this kernel's tracepoints of DMA fences have other fields than those known");
    }
    return {};
}

class FenceProbe final : public BpfProbe<fence_bpf, FenceAggregator> {
public:
    // `on_event`: for a trace.
    FenceProbe(const config::Config &config, TracedProcessesPtr traced, OnFence on_event = nullptr)
        : BpfProbe("fence", config),
          config_(config.of<FenceConfig>()),
          traced_(std::move(traced)),
          on_event_(std::move(on_event)) {}

private:
    Result<> configure(fence_bpf &skeleton) override {
        if (auto started = traced_->targets().start(); !started) {
            return started;
        }
        bpf_map__set_max_entries(skeleton.maps.fence_known, config_.max_fences);
        ebpf::grow_on_demand(skeleton.maps.fence_procs);
        const auto set = set_layout(skeleton);
        return set ? traced_->targets().share_maps_with(skeleton) : set;
    }

    std::vector<ProbeRing> rings(fence_bpf &skeleton) override {
        return {{skeleton.maps.fence_events, config_.ring_bytes,
                 [this](auto bytes) { return aggregator().on_record(bytes, on_event_); }}};
    }

    Result<> attach(fence_bpf &skeleton) override;

    [[nodiscard]] std::vector<const bpf_program *> spare_programs(
        const fence_bpf &skeleton) const override {
        const auto &all = skeleton.progs;
        return {all.fence_n_init, all.fence_n_emit,   all.fence_n_enable, all.fence_n_signal,
                all.fence_n_wait, all.fence_n_waited, all.fence_n_destroy};
    }

    FenceConfig config_;
    TracedProcessesPtr traced_;
    OnFence on_event_;
};

Result<> FenceProbe::attach(fence_bpf &skeleton) {
    skeleton.bss->attached_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
    // In the order from a fence's end to its init, so that the end of every event that has begun is
    // seen. Of the two programs at a tracepoint, the first attached usually runs first; see
    // fence.bpf.c.
    const auto &all = skeleton.progs;
    const std::array<const bpf_program *, 16> programs = {
        all.fence_exit,     all.fence_exec,      all.fence_destroy,  all.fence_waited,
        all.fence_wait,     all.fence_signal,    all.fence_enable,   all.fence_emit,
        all.fence_init,     all.fence_n_destroy, all.fence_n_waited, all.fence_n_wait,
        all.fence_n_signal, all.fence_n_enable,  all.fence_n_emit,   all.fence_n_init};
    if (auto attached = attach_each(programs); !attached) {
        return attached;
    }
    state().up(FENCE_EVENT_COUNT, "tracing " + traced_->targets().describe());
    log::info("tracing DMA fences", {{"probe", "fence"}, {"of", traced_->targets().describe()}});
    return {};
}

}  // namespace

constinit const ProbeKind fence_kind = {
    .name = "fence",
    .title = "DMA fences",
    .make = make_if_enabled<FenceProbe, FenceConfig>,
    .read = read_fence,
    .declare = declare_families<make_fence_families>,
    .counts = {.entries = true,
               .unmatched = true,
               .lost = lost_for({LOST_ring_full, LOST_no_state, LOST_process_table, LOST_too_deep,
                                 LOST_table_full})},
    .trace = &trace::fence_trace,
};

void read_fence(config::Section fence, config::Config &config) {
    FenceConfig value;
    fence.boolean("enabled", value.enabled);
    fence.integer("max_fences", value.max_fences, 64, 1U << 22U);
    fence.ring_bytes("ring_bytes", value.ring_bytes);
    fence.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

namespace {

template <std::size_t size>
std::string shown_or_unknown(const char (&bytes)[size]) {
    const std::string_view text(bytes, ::strnlen(bytes, size));
    return text.empty() ? "unknown" : printable(text, max_text_bytes);
}

}  // namespace

Event event_of(const fence_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event = make_event(
        began_ns(record.head.at_ns, 0, clock_offset_ns), record.head.tgid, record.tid, process,
        "event", std::string(probes::fence_event_names.at(record.head.type - FENCE_RECORD)));
    if (record.has_duration != 0) {
        event.duration_ns = record.nanoseconds;
    }
    event.details = {{"driver", shown_or_unknown(record.names.driver)},
                     {"timeline", shown_or_unknown(record.names.timeline)},
                     {"context", std::uint64_t{record.fence.context}},
                     {"seqno", std::uint64_t{record.fence.seqno}}};
    return event;
}

constinit const Kind fence_trace = {
    .help = "Events of DMA fences, and waits for them.",
    .column = "EVENT",
    .make = make<TargetRecordTracer<TargetTracer, probes::FenceProbe, fence_record, event_of>>};

}  // namespace gpusnoop::trace
