#include "exporter/probes/host_life/probe.h"

#include <bpf/bpf.h>

#include <array>
#include <optional>
#include <set>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/host_life/settings.h"
#include "exporter/probes/host_life/trace.h"
#include "exporter/system/machine.h"
#include "host_life.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

class HostLifeProbe final : public HostProbe<host_life_bpf, HostLifeAggregator> {
public:
    // `trace`: instead of counts.
    HostLifeProbe(const config::Config &config, TracedProcessesPtr traced, OnLife trace = {})
        : HostProbe("host_life", config, std::move(traced)), trace_(std::move(trace)) {
        aggregator().keep(config.of<HostLifeConfig>().keep);
    }

    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override {
        return name == exits_page_name && is_up_
                   ? std::vector{exits_page(aggregator().history().list(),
                                            traced().cuda().function_name)}
                   : std::vector<ApiPage>{};
    }

    void add_to(Overview &overview) const override {
        if (is_up_) {
            overview.ends = aggregator().history().overview();
        }
    }

private:
    [[nodiscard]] bool is_trace() const { return trace_.exit || trace_.signal; }

    Result<> configure_programs(host_life_bpf &skeleton) override {
        skeleton.rodata->tracing = is_trace();
        return {};
    }

    std::vector<ProbeRing> rings(host_life_bpf &skeleton) override {
        bpf_map *const map = skeleton.maps.life_events;
        return {{map, bpf_map__max_entries(map), [this](auto bytes) {
                     followed().drain();  // who the process is
                     const nanoseconds to_realtime =
                         now_on(CLOCK_REALTIME) - now_on(CLOCK_MONOTONIC);
                     return aggregator().on_record(bytes, to_realtime, trace_);
                 }}};
    }

    Result<> attach(host_life_bpf &skeleton) override;

    // Starts are counted in the table of followed processes.
    void add_others(probe_account &account) const override {
        const follow_counts counts = followed().counts();
        account.entered += counts.entered;
        account.events += counts.events;
        account.lost[LOST_ring_full] += counts.ring_full;
        account.lost[LOST_process_table] += counts.table_full;
    }

    // For processes that ended before the reading, it has their last signals.
    void tick(nanoseconds now) override {
        const auto signals = read_signals();
        aggregator().history().forget_unused(now - host_grace);
        followed().end_gone(aggregator().processes(), now);
        const auto gone = aggregator().processes().tidy(now);
        const std::set<ProcessKey> forgotten(gone.begin(), gone.end());
        for (const auto &[key, count] : signals) {
            if (forgotten.contains({key.tgid, key.since_ns})) {
                bpf_map_delete_elem(bpf_map__fd(skeleton().maps.life_signals), &key);
            }
        }
    }
    void refresh() override { (void)read_signals(); }
    HostLifeAggregator::Signals read_signals();

    OnLife trace_;
    bool is_up_ = false;
};

Result<> HostLifeProbe::attach(host_life_bpf &skeleton) {
    const std::array<const bpf_program *, 2> programs = {skeleton.progs.life_exit,
                                                         skeleton.progs.life_signal};
    if (auto attached = attach_each(programs); !attached) {
        return attached;
    }
    if (!is_trace()) {
        followed().on_record(
            [this](const auto &record, const auto &) { aggregator().on_follow(record); });
        traced().cuda().on_gpu_process_end = [this](const GpuProcessEnd &end) {
            aggregator().history().add(end);
        };
    }
    is_up_ = true;
    state().up(programs.size(), "following " + traced().describe_followed());
    log::info("following starts, ends and signals",
              {{"probe", "host_life"}, {"of", traced().describe_followed()}});
    return {};
}

HostLifeAggregator::Signals HostLifeProbe::read_signals() {
    HostLifeAggregator::Signals signals;
    const bpf_map *const map = skeleton().maps.life_signals;
    const auto read = ebpf::for_each_lookup<life_key, std::uint64_t>(
        bpf_map__fd(map), bpf_map__max_entries(map),
        [&](const life_key &key, std::uint64_t count) { signals.emplace_back(key, count); });
    if (!read) {
        log::warn("cannot read the table of signals", {{"reason", read.error().message}});
    }
    followed().drain();  // who the processes are
    aggregator().on_signals(signals);
    return signals;
}

constexpr KernelNeed life_needs[] = {
    {.thing = "the tracepoint of signals",
     .reason = "the kernel has no signal:signal_generate",
     .costs = "the probe fails",
     .is_met =
         [](const KernelView &kernel, const config::Config & /*config*/) {
             return kernel.has_tracepoint("signal_generate");
         }},
};

constexpr const trace::Kind *life_traces[] = {&trace::exit_trace, &trace::signal_trace};

constexpr std::string_view host_life_pages[] = {exits_page_name};

}  // namespace

constinit const ProbeKind host_life_kind = {
    .name = "host_life",
    .title = "Starts and ends of processes",
    .make = make_if_enabled<HostLifeProbe, HostLifeConfig>,
    .read_host = read_host_life,
    .follows_processes = is_enabled<HostLifeConfig>,
    .kernel_needs = life_needs,
    .declare = declare_families<make_host_life_families>,
    .counts = {.entries = true,
               .lost = lost_for({LOST_ring_full, LOST_process_table, LOST_table_full})},
    .api_pages = host_life_pages,
    .named_traces = life_traces,
};

std::unique_ptr<Probe> make_life_tracer(const config::Config &config,
                                        const TracedProcessesPtr &traced, OnLife trace) {
    return std::make_unique<HostLifeProbe>(config, traced, std::move(trace));
}

}  // namespace gpusnoop::probes
