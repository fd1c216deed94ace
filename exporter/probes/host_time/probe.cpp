#include "exporter/probes/host_time/probe.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/host_time/aggregator.h"
#include "exporter/probes/host_time/calls.h"
#include "exporter/probes/host_time/reader.h"
#include "exporter/probes/host_time/recent.h"
#include "exporter/probes/host_time/threads.h"
#include "exporter/probes/host_time/trace.h"
#include "exporter/sinks/sinks.h"
#include "exporter/system/machine.h"
#include "host_time.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// The most different stacks of a trace, of half a KiB each.
constexpr std::uint32_t max_stacks = 16'384;

class HostTimeProbe final : public HostProbe<host_time_bpf, HostTimeAggregator> {
public:
    HostTimeProbe(const config::Config &config, const Shared &shared)
        : HostTimeProbe(config, shared.traced,
                        {.on_gap =
                             [this, sinks = shared.sinks](const LongGap &gap, const auto &) {
                                 if (sinks->want(sinks::Events::launch_gaps)) {
                                     sinks->send(sinks::Events::launch_gaps, event_line(gap));
                                 }
                                 long_gaps_.add(gap);
                             }},
                        shared.report_facts) {}
    HostTimeProbe(const config::Config &config, TracedProcessesPtr traced, GapTracing tracing,
                  ReportFactsPtr report_facts = std::make_shared<ReportFacts>())
        : HostProbe("host_time", config, std::move(traced)),
          read_interval_(config.of<HostConfig>().read_interval),
          tracing_(std::move(tracing)),
          report_facts_(std::move(report_facts)),
          long_gaps_(config.of<HostTimeConfig>().keep_gaps) {}

    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override;
    void add_to(Overview &overview) const override;

private:
    Result<> configure_programs(host_time_bpf &skeleton) override;
    std::vector<ProbeRing> rings(host_time_bpf &skeleton) override {
        bpf_map *const map = skeleton.maps.cuda_gaps;
        return {{map, bpf_map__max_entries(map), [this](auto bytes) { return on_gap(bytes); }}};
    }
    Result<> attach(host_time_bpf &skeleton) override;
    void tick(nanoseconds now) override;
    void refresh() override { read(); }
    void add_others(probe_account &account) const override {
        HostProbe::add_others(account);
        account.entered += counted_.opened + counted_.gaps + counted_.file_waits_lost;
        account.events += counted_.settled + counted_.gaps - counted_.gaps_lost;
        account.lost[LOST_ring_full] += counted_.gaps_lost;
        account.lost[LOST_table_full] += counted_.file_waits_lost;
    }

    // As of the last reading, for any thread.
    struct Counted {
        std::atomic<std::uint64_t> opened = 0;
        std::atomic<std::uint64_t> settled = 0;
        std::atomic<std::uint64_t> file_waits_lost = 0;
        std::atomic<std::uint64_t> gaps = 0;
        std::atomic<std::uint64_t> gaps_lost = 0;
    };

    void read();
    bool on_gap(std::span<const std::byte> bytes);
    [[nodiscard]] std::vector<std::uint64_t> stack_of(const host_block &block) const;

    nanoseconds read_interval_;
    std::unique_ptr<HostTimeReader> reader_;
    LaunchingThreads threads_;
    RecentTimes recent_;
    const GapTracing tracing_;
    const ReportFactsPtr report_facts_;
    int stacks_ = -1;  // the table of stacks; -1: there is none
    LongGapHistory long_gaps_;
    nanoseconds counts_since_{};    // 0: not up
    nanoseconds explains_since_{};  // from then on it sees each time that a thread is blocked
    nanoseconds read_at_{};
    bool must_read_ = false;  // before the next interval
    Counted counted_;
};

Result<> HostTimeProbe::configure_programs(host_time_bpf &skeleton) {
    if (!ebpf::has_member("sched_info", "run_delay")) {
        return fail_unsupported(
            "this kernel does not count how long threads wait for a CPU: it is built without "
            "CONFIG_SCHEDSTATS and without CONFIG_TASK_DELAY_ACCT");
    }
    if (!ebpf::has_member("cfs_rq", "rq")) {
        return fail_unsupported("this kernel is built without CONFIG_FAIR_GROUP_SCHED");
    }
    const TimeMaps &maps = traced().cuda().times;
    if (!maps.times) {
        return fail_unsupported(
            "it counts what the probe cuda sees, which is not up, or targets.gpu_processes is "
            "false");
    }
    classify_system_calls(skeleton.rodata->classes);
    if (tracing_.stacks) {
        skeleton.rodata->gap_stacks = true;
        bpf_map__set_max_entries(skeleton.maps.htime_stacks, max_stacks);
    }
    const std::pair<bpf_map *, const Fd &> all[] = {
        {skeleton.maps.cuda_threads, maps.threads},
        {skeleton.maps.cuda_times, maps.times},
        {skeleton.maps.cuda_times_past, maps.past},
        {skeleton.maps.cuda_gaps, maps.gaps},
        {skeleton.maps.cuda_file_waits, maps.file_waits},
        {skeleton.maps.cuda_dev_times, maps.devices}};
    for (const auto &[map, fd] : all) {
        if (const int error = bpf_map__reuse_fd(map, fd.get()); error != 0) {
            return fail_errno("share the accounts of launching threads", -error);
        }
    }
    return {};
}

Result<> HostTimeProbe::attach(host_time_bpf &skeleton) {
    const CudaShared &cuda = traced().cuda();
    auto reader = HostTimeReader::open({.threads = skeleton.progs.htime_threads,
                                        .waiters = skeleton.progs.htime_waiters,
                                        .past = cuda.times.past.get(),
                                        .waits_past = bpf_map__fd(skeleton.maps.htime_past),
                                        .file_waits = cuda.times.file_waits.get(),
                                        .devices = cuda.times.devices.get()});
    if (!reader) {
        return tl::unexpected(reader.error());
    }
    reader_ = std::move(*reader);
    stacks_ = tracing_.stacks ? bpf_map__fd(skeleton.maps.htime_stacks) : -1;
    // Nobody knows any more whose it is.
    reader_->forget_all();
    aggregator().name_gpus(cuda.gpu_name);
    aggregator().estimate_launches(cuda.unseen_launches);
    aggregator().name_functions(cuda.function_name);
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    skeleton.bss->attached_ns = static_cast<std::uint64_t>(now.count());
    const bpf_program *const programs[] = {skeleton.progs.htime_switch, skeleton.progs.htime_fork,
                                           skeleton.progs.htime_exec, skeleton.progs.htime_exit};
    if (auto attached = attach_each(programs); !attached) {
        return attached;
    }
    explains_since_ = now_on(CLOCK_MONOTONIC);
    followed().on_record([this](const follow_record &record, const ProcessIdentity &) {
        // A GPU process has threads by its first call; what others start is followed from its
        // beginning.
        const bool has_threads =
            record.head.type == FOLLOW_STARTED && (record.reasons & FOLLOWED_CUDA) != 0;
        must_read_ |=
            has_threads || record.head.type == FOLLOW_ENDED || record.head.type == FOLLOW_EXECED;
    });
    counts_since_ = now;
    report_facts_->sources().host_time = true;
    state().up(4, "following the threads that launch work on a GPU, and what others wait for");
    return {};
}

void HostTimeProbe::read() {
    const auto reading = reader_->read();
    if (!reading) {
        log::warn("cannot read the time accounting of launching threads",
                  {{"reason", reading.error().message}});
        return;
    }
    must_read_ = false;
    read_at_ = now_on(CLOCK_MONOTONIC);
    aggregator().on_reading(*reading);
    threads_.on_reading(*reading);
    recent_.on_reading(aggregator(), read_at_);
    counted_.opened = aggregator().opened();
    counted_.settled = aggregator().settled();
    counted_.file_waits_lost = aggregator().file_waits_lost();
    counted_.gaps = aggregator().gap_records();
    counted_.gaps_lost = aggregator().gap_records_lost();
}

bool HostTimeProbe::on_gap(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<host_gap_record>(bytes);
    if (!record) {
        return false;
    }
    const nanoseconds ended(static_cast<std::int64_t>(record->ended_ns));
    const nanoseconds began = ended - nanoseconds(static_cast<std::int64_t>(record->ns));
    if (began < explains_since_) {
        return true;  // its states are not known, or an earlier exporter has not read it
    }
    followed().drain();  // who the process is
    const ProcessIdentity &process = aggregator().identity_of(record->process);
    const CudaShared &cuda = traced().cuda();
    const nanoseconds to_realtime = now_on(CLOCK_REALTIME) - now_on(CLOCK_MONOTONIC);
    const auto gpu = cuda.gpu_name(record->process.tgid, record->device);
    const LongGap gap{.began = began + to_realtime,
                      .record = *record,
                      .process = process,
                      .gpu = gpu && *gpu != "unknown" ? *gpu : std::string(),
                      .before = record->before == HOST_GAP_OTHER_THREAD
                                    ? std::string_view()
                                    : cuda.function_name(record->before),
                      .after = cuda.function_name(record->after),
                      .stack = stack_of(record->longest)};
    tracing_.on_gap(gap, process);
    return true;
}

std::vector<std::uint64_t> HostTimeProbe::stack_of(const host_block &block) const {
    std::vector<std::uint64_t> frames(HOST_STACK_FRAMES);
    if (stacks_ < 0 || block.ns == 0 || block.stack < 0 ||
        bpf_map_lookup_elem(stacks_, &block.stack, frames.data()) != 0) {
        return {};
    }
    frames.erase(std::ranges::find(frames, 0U), frames.end());
    return frames;
}

std::vector<ApiPage> HostTimeProbe::api_pages(std::string_view name) {
    if (counts_since_ == nanoseconds::zero()) {
        return {};
    }
    if (name == gaps_page_name) {
        return {gaps_page(long_gaps_.list())};
    }
    if (name != threads_page_name) {
        return {};
    }
    read();
    ThreadsState now = threads_state(aggregator(), threads_);
    now.elapsed = read_at_ - counts_since_;
    now.to_realtime = now_on(CLOCK_REALTIME) - now_on(CLOCK_MONOTONIC);
    return {threads_page(std::move(now))};
}

// `cuda` has added the processes.
void HostTimeProbe::add_to(Overview &overview) const {
    if (overview.memory) {
        for (ProcessOverview &process : overview.memory->processes) {
            if (auto verdict = recent_.verdict_of(process.pid)) {
                process.limit = std::move(verdict->sentence);
                process.verdict = verdict->word;
            }
        }
    }
}

// What the last threads of a process did is read before the process is forgotten, and the threads
// of a new one are found soon.
void HostTimeProbe::tick(nanoseconds now) {
    if (must_read_ || (now - read_at_ >= read_interval_ && followed().has_any())) {
        read();
    }
    long_gaps_.forget_old(now_on(CLOCK_REALTIME));
    followed().end_gone(aggregator().processes(), now);
    aggregator().for_each_ended([&](const ProcessKey &process, nanoseconds waited) {
        const nanoseconds since(static_cast<std::int64_t>(process.since_ns));
        report_facts_->add_waited(process, {.time = waited, .is_complete = since >= counts_since_},
                                  now);
    });
    reader_->forget(aggregator().processes().tidy(now));
}

constexpr KernelNeed host_time_needs[] = {
    {.thing = "waits of threads for a CPU",
     .reason = "the kernel is built without CONFIG_SCHEDSTATS and CONFIG_TASK_DELAY_ACCT",
     .costs = "the probe is unsupported",
     .is_met = has_member<"sched_info", "run_delay">},
    {.thing = "run queues of cgroups",
     .reason = "the kernel is built without CONFIG_FAIR_GROUP_SCHED",
     .costs = "the probe is unsupported",
     .is_met = has_member<"cfs_rq", "rq">},
    {.thing = "CPU quotas",
     .reason = "the kernel is built without CONFIG_CFS_BANDWIDTH",
     .costs = "no time has the state `throttled`",
     .is_met = has_member<"cfs_bandwidth", "throttled_time">},
};

constexpr const trace::Kind *time_traces[] = {&trace::gap_trace};

constexpr std::string_view host_time_pages[] = {threads_page_name, gaps_page_name};

}  // namespace

constinit const ProbeKind host_time_kind = {
    .name = "host_time",
    .title = "The host: time of launching threads",
    .make = make_if_enabled<HostTimeProbe, HostTimeConfig>,
    .read_host = read_host_time,
    .follows_processes = is_enabled<HostTimeConfig>,
    .kernel_needs = host_time_needs,
    .declare = declare_families<make_host_time_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .lost = lost_for({LOST_ring_full, LOST_process_table, LOST_table_full})},
    .api_pages = host_time_pages,
    .named_traces = time_traces,
};

std::unique_ptr<Probe> make_gap_tracer(const config::Config &config,
                                       const TracedProcessesPtr &traced, GapTracing tracing) {
    return std::make_unique<HostTimeProbe>(config, traced, std::move(tracing));
}

}  // namespace gpusnoop::probes
