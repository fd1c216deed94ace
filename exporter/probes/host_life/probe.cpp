#include "exporter/probes/host_life/probe.h"

#include <bpf/bpf.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/host_life/reports/maker.h"
#include "exporter/probes/host_life/trace.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"
#include "host_life.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

JobOwners::Moment moment() {
    return {.monotonic = now_on(CLOCK_MONOTONIC), .realtime = now_on(CLOCK_REALTIME)};
}

// Nothing: the record is another one.
std::optional<life_exit_record> exit_in(std::span<const std::byte> bytes) {
    const auto exit = ebpf::decode<life_exit_record>(bytes);
    return exit && exit->head.type == LIFE_EXIT ? std::optional(*exit) : std::nullopt;
}

class HostLifeProbe final : public HostProbe<host_life_bpf, HostLifeAggregator> {
public:
    HostLifeProbe(const config::Config &config, const Shared &shared)
        : HostLifeProbe(config, shared.traced, {}, shared.report_facts) {
        on_report_ = [this, reporter = std::make_shared<JobReporter>(shared.sinks)](
                         const JobReport &report) {
            reporter->report(report);
            report_history_.add(report);
        };
    }
    // `trace`: instead of counts.
    HostLifeProbe(const config::Config &config, TracedProcessesPtr traced, OnLife trace,
                  ReportFactsPtr report_facts)
        : HostProbe("host_life", config, std::move(traced)),
          trace_(std::move(trace)),
          on_report_(trace_.report),
          report_facts_(std::move(report_facts)),
          cgroup_path_(config.of<HostConfig>().cgroup_path),
          report_history_(config.of<HostLifeConfig>().keep) {
        aggregator().keep(config.of<HostLifeConfig>().keep);
    }

    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override {
        return name == exits_page_name && is_up_
                   ? std::vector{exits_page(aggregator().history().list(), report_history_.list(),
                                            traced().cuda().function_name)}
                   : std::vector<ApiPage>{};
    }

    void add_to(Overview &overview) const override {
        if (is_up_) {
            overview.ends = aggregator().history().overview();
            overview.job_reports = report_history_.overview();
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
                     if (const auto exit = exit_in(bytes); exit && reports_) {
                         reports_->on_exit(*exit);
                     }
                     return aggregator().on_record(bytes, to_realtime, trace_);
                 }}};
    }
    void make_reports();
    void on_gpu_process(const ProcessIdentity &process) {
        reports_->on_process(process, moment());
        if (trace_.running) {
            trace_.running(process.key);
        }
    }
    // Processes that were not seen to start, or were not GPU processes then.
    void rescan() override {
        if (reports_) {
            for (const auto &running : followed().running()) {
                if ((running.reasons & FOLLOWED_CUDA) != 0) {
                    ProcessIdentity process;
                    process.key = running.key;
                    (void)followed().identify(process);
                    on_gpu_process(process);
                }
            }
        }
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
        if (reports_) {
            reports_->make(moment());
        }
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
    std::function<void(const JobReport &)> on_report_;  // empty: nobody wants reports
    ReportFactsPtr report_facts_;
    std::string cgroup_path_;
    std::optional<ReportMaker> reports_;  // while the probe is up
    JobReportHistory report_history_;
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
    if (on_report_) {
        make_reports();
    }
    is_up_ = true;
    state().up(programs.size(), "following " + traced().describe_followed());
    log::info("following starts, ends and signals",
              {{"probe", "host_life"}, {"of", traced().describe_followed()}});
    return {};
}

// Of a trace, only what `cuda` knows: nobody else is there to wait for.
void HostLifeProbe::make_reports() {
    reports_.emplace(
        report_facts_,
        ReportMaker::Settings{
            .delay = is_trace() ? nanoseconds::zero() : ReportMaker::default_delay,
            .node = {.cgroup_path = cgroup_path_,
                     .cgroups_of = processes::cgroups_of,
                     .knows = [this](const ProcessKey &key) { return followed().knows(key); }},
            .started = moment(),
            .on_report = on_report_});
    followed().on_record([this](const follow_record &record, const ProcessIdentity &process) {
        if (record.head.type == FOLLOW_EXECED) {
            reports_->on_exec(record);
        } else if (record.head.type != FOLLOW_ENDED && (record.reasons & FOLLOWED_CUDA) != 0) {
            on_gpu_process(process);
        }
    });
    rescan();
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
     .is_met = has_tracepoints<"signal_generate">},
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
                                        const TracedProcessesPtr &traced, OnLife trace,
                                        ReportFactsPtr report_facts) {
    return std::make_unique<HostLifeProbe>(config, traced, std::move(trace),
                                           std::move(report_facts));
}

}  // namespace gpusnoop::probes
