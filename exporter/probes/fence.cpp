#include "exporter/probes/fence.h"

#include <bpf/libbpf.h>

#include <atomic>

#include "exporter/base/log.h"
#include "exporter/base/machine.h"
#include "exporter/kernel/link.h"
#include "exporter/kernel/object.h"
#include "exporter/kernel/record.h"
#include "exporter/kernel/ring.h"
#include "exporter/kernel/skeleton.h"
#include "exporter/kernel/tracepoint.h"
#include "exporter/probes/attached_libraries.h"
#include "exporter/probes/budget.h"
#include "exporter/probes/fence_aggregator.h"
#include "fence.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

class FenceProbe final : public Probe {
public:
    // With `on_event` it traces.
    FenceProbe(const config::Config &config, TargetsPtr targets, OnFence on_event)
        : config_(config.fence),
          on_event_(std::move(on_event)),
          rescan_interval_(config.discovery.rescan_interval),
          targets_(std::move(targets)),
          aggregator_({.budget = budget_of(config.series),
                       .pid_label = config.labels.pid,
                       .retention = config.series.retention},
                      look_up) {}

    Result<> start() override;
    void drain() override;
    std::vector<series::FamilySnapshot> report() override {
        return aggregator_.families().snapshots();
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.families().folded();
    }
    [[nodiscard]] Health health() const override;

private:
    Result<> open();
    Result<> attach();
    void on_record(std::span<const std::byte> bytes);

    config::Config::Fence config_;
    OnFence on_event_;
    nanoseconds rescan_interval_;
    TargetsPtr targets_;
    FenceAggregator aggregator_;
    kernel::Skeleton<fence_bpf> skeleton_;
    std::vector<kernel::Link> links_;  // detached before the skeleton goes
    std::unique_ptr<kernel::Ring> records_;
    nanoseconds tidied_{};
    nanoseconds looked_around_{};
    EndedProcesses ended_;
    std::uint64_t untold_ = 0;  // records of a trace that were none
    std::atomic<std::uint64_t> undecodable_ = 0;
    std::string down_because_ = "not started";  // written before any other thread sees the probe
};

// Where the fields are. All tracepoints of fences are of one class, with one record. It has looked
// the same since the tracepoints got their present names (commit f54d1867005c, "dma-buf: Rename
// struct fence to dma_fence", Linux 4.10): the context and the number in it are 32 bits there,
// though struct dma_fence has 64. A kernel that widens them is read in the same way, as both
// machines that we trace put the low half first.
Result<> set_layout(fence_bpf &skeleton) {
    const auto fields = kernel::tracepoint_fields("dma_fence", "dma_fence_init");
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
        return fail("this kernel's tracepoints of DMA fences have other fields than those known");
    }
    return {};
}

Result<> FenceProbe::start() {
    const auto opened = open();
    if (!opened) {
        links_.clear();
        records_.reset();
        skeleton_.reset();
    }
    down_because_ = opened ? "" : opened.error().message;
    return opened;
}

Result<> FenceProbe::open() {
    if (auto started = targets_->start(); !started) {
        return started;
    }
    skeleton_.reset(fence_bpf::open());
    if (!skeleton_) {
        return fail_errno("open the BPF programs");
    }
    if (auto set = set_layout(*skeleton_); !set) {
        return set;
    }
    bpf_map__set_max_entries(skeleton_->maps.fences, config_.max_fences);
    bpf_map__set_max_entries(skeleton_->maps.records, config_.ring_bytes);
    if (auto given = targets_->give_to(*skeleton_); !given) {
        return given;
    }
    if (const int error = fence_bpf::load(skeleton_.get()); error != 0) {
        return fail_errno("load the BPF programs", -error);
    }
    auto records = kernel::Ring::open(bpf_map__fd(skeleton_->maps.records),
                                      [this](auto bytes) { on_record(bytes); });
    if (!records) {
        return tl::unexpected(records.error());
    }
    records_ = std::move(*records);
    return attach();
}

Result<> FenceProbe::attach() {
    skeleton_->bss->attached_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
    const auto &programs = skeleton_->progs;
    // From the end of a fence to its beginning: what has begun then has its end seen. Of the two at
    // a tracepoint mostly the first that was attached runs first; see fence.bpf.c.
    for (const bpf_program *program :
         {programs.thread_exit, programs.process_exec, programs.on_destroy, programs.on_wait_end,
          programs.on_wait_start, programs.on_signaled, programs.on_enable_signal, programs.on_emit,
          programs.on_init, programs.names_destroy, programs.names_wait_end,
          programs.names_wait_start, programs.names_signaled, programs.names_enable_signal,
          programs.names_emit, programs.names_init}) {
        kernel::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach to the tracepoint of ") +
                              bpf_program__name(program));
        }
        links_.push_back(std::move(link));
    }
    log::info("tracing DMA fences", {{"probe", "fence"}, {"of", targets_->describe()}});
    return {};
}

void FenceProbe::on_record(std::span<const std::byte> bytes) {
    if (!on_event_) {
        aggregator_.on_record(bytes);
        return;
    }
    TracedProcesses &processes = aggregator_.processes();
    if (processes.on_record(bytes)) {
        return;
    }
    const auto record = kernel::decode<fence_record>(bytes);
    if (!record || record->head.type - FENCE_RECORD >= FENCE_EVENT_COUNT) {
        untold_++;
    } else if (record->head.since_ns == 0) {
        on_event_(*record, ProcessIdentity());
    } else {
        on_event_(*record, processes.of({record->head.tgid, record->head.since_ns}));
    }
}

void FenceProbe::drain() {
    if (!records_) {
        return;
    }
    records_->drain_to(records_->produced());
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    if (now - tidied_ > std::chrono::seconds(1)) {
        tidied_ = now;
        aggregator_.tidy(now);
    }
    if (now - looked_around_ >= rescan_interval_) {
        looked_around_ = now;
        TracedProcesses &processes = aggregator_.processes();
        for (const ProcessKey &key : ended_.look(processes.running())) {
            processes.assume_ended(key, now);
        }
    }
    undecodable_ = aggregator_.undecodable() + untold_;
}

Health FenceProbe::health() const {
    Health health;
    health.name = "fence";
    health.up = down_because_.empty();
    health.detail = health.up ? "tracing " + targets_->describe() : down_because_;
    health.undecodable = undecodable_;
    if (records_) {
        health.attached_functions = FENCE_EVENT_COUNT;
        const auto &programs = skeleton_->progs;
        add_counts(health, bpf_map__fd(skeleton_->maps.account),
                   kernel::runs_of(skeleton_->obj, std::array<const bpf_program *, 7>{
                                                       programs.on_init, programs.on_emit,
                                                       programs.on_enable_signal,
                                                       programs.on_signaled, programs.on_wait_start,
                                                       programs.on_wait_end, programs.on_destroy}));
    }
    return health;
}

}  // namespace

std::unique_ptr<Probe> make_fence(const config::Config &config, const kernel::Features &,
                                  const TargetsPtr &targets) {
    if (!config.fence.enabled) {
        return nullptr;
    }
    return std::make_unique<FenceProbe>(config, targets, nullptr);
}

std::unique_ptr<Probe> make_fence_tracer(const config::Config &config, const TargetsPtr &targets,
                                         OnFence on_event) {
    return std::make_unique<FenceProbe>(config, targets, std::move(on_event));
}

}  // namespace gpusnoop::probes
