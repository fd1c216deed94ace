#include "exporter/probes/syscall/probe.h"

#include <optional>

#include "exporter/base/log.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/syscall/programs.h"
#include "exporter/probes/syscall/settings.h"
#include "exporter/probes/syscall/trace.h"
#include "exporter/system/machine.h"
#include "syscall.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// The ring of a trace; a power of two.
constexpr std::uint32_t trace_ring_bytes = 32U << 20U;

class SyscallProbe final : public BpfProbe<syscall_bpf, SyscallAggregator> {
public:
    SyscallProbe(const config::Config &config, TracedProcessesPtr traced, SyscallTrace trace = {})
        : BpfProbe("syscall", config),
          config_(config.of<SyscallConfig>()),
          traced_(std::move(traced)),
          trace_(std::move(trace)) {}

private:
    Result<> configure(syscall_bpf &skeleton) override {
        if (auto started = traced_->targets().start(); !started) {
            return started;
        }
        const SyscallUse use = !trace_.on_call     ? SyscallUse::counts
                               : trace_.with_paths ? SyscallUse::trace_of_paths
                                                   : SyscallUse::trace;
        if (auto configured = configure_programs(skeleton, config_, use); !configured) {
            return configured;
        }
        return traced_->targets().share_maps_with(skeleton);
    }

    std::vector<ProbeRing> rings(syscall_bpf &skeleton) override {
        bpf_map *const map = skeleton.maps.syscall_events;
        return {{map, trace_.on_call ? trace_ring_bytes : bpf_map__max_entries(map),
                 [this](auto bytes) { return aggregator().on_record(bytes, trace_.on_call); }}};
    }

    Result<> attach(syscall_bpf &skeleton) override;

    [[nodiscard]] std::vector<const bpf_program *> spare_programs(
        const syscall_bpf &skeleton) const override {
        return {skeleton.progs.syscall_keep};  // does nothing
    }

    // For processes that ended before the reading, it has their last calls.
    void tick(nanoseconds now) override {
        if (const auto reading = read_tables()) {
            tables_.forget(*reading, aggregator().processes().tidy(now));
        }
    }
    void refresh() override { (void)read_tables(); }
    std::optional<SyscallReading> read_tables();

    SyscallConfig config_;
    TracedProcessesPtr traced_;
    SyscallTrace trace_;
    SyscallTables tables_;
};

Result<> SyscallProbe::attach(syscall_bpf &skeleton) {
    skeleton.bss->attached_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
    if (auto attached = attach_each(programs_to_attach(skeleton)); !attached) {
        return attached;
    }
    auto tables = SyscallTables::open(skeleton);
    if (!tables) {
        return tl::unexpected(tables.error());
    }
    tables_ = std::move(*tables);
    // Two ends: the beginning and the end of system calls.
    state().up(2, "tracing " + traced_->targets().describe());
    const bool at_tracepoints = bpf_program__autoload(skeleton.progs.syscall_enter);
    log::info("tracing system calls", {{"probe", "syscall"},
                                       {"of", traced_->targets().describe()},
                                       {"at", at_tracepoints ? "tracepoints" : "functions"}});
    return {};
}

std::optional<SyscallReading> SyscallProbe::read_tables() {
    auto reading = tables_.read();
    if (!reading) {
        log::warn("cannot read the table of system calls", {{"reason", reading.error().message}});
        return std::nullopt;
    }
    // The ring has the records of all processes that started before the reading.
    drain_rings();
    aggregator().on_reading(*reading);
    return std::move(*reading);
}

constexpr const trace::Kind *syscall_traces[] = {&trace::open_trace};

}  // namespace

constinit const ProbeKind syscall_kind = {
    .name = "syscall",
    .title = "System calls",
    .make = make_if_enabled<SyscallProbe, SyscallConfig>,
    .read = read_syscall,
    .declare = declare_families<make_syscall_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .unmatched = true,
               .lost =
                   lost_for({LOST_ring_full, LOST_no_state, LOST_process_table, LOST_table_full})},
    .trace = &trace::syscall_trace,
    .named_traces = syscall_traces,
};

std::unique_ptr<Probe> make_syscall_tracer(const config::Config &config,
                                           const TracedProcessesPtr &traced, SyscallTrace trace) {
    return std::make_unique<SyscallProbe>(config, traced, std::move(trace));
}

}  // namespace gpusnoop::probes
