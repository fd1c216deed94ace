#include "exporter/probes/cuda/probe.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/ebpf/counters.h"
#include "exporter/ebpf/detacher.h"
#include "exporter/ebpf/ring.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/describe.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/memory/allocations_api.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/cuda/memory/reconcile_schedule.h"
#include "exporter/probes/cuda/names.h"
#include "exporter/probes/cuda/programs.h"
#include "exporter/probes/cuda/trace/trace.h"
#include "exporter/probes/frame/attached_libraries.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/sandbox_warnings.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

class CudaProbe final : public Probe, public discovery::Attacher {
public:
    CudaProbe(const config::Config &config, ebpf::Features features, TargetProcessesPtr targets)
        : config_(config.cuda),
          targets_(std::move(targets)),
          rescan_interval_(config.discovery.rescan_interval),
          features_(std::move(features)),
          gpus_(discovery::read_gpus(config.discovery.nvidia_proc_path)),
          aggregator_(CudaSettings{.budget = budget_of(config.series),
                                   .pid_label = config.labels.pid,
                                   .retention = config.series.retention,
                                   .gpus = gpus_.gpus(),
                                   .sites = config.cuda.call_sites,
                                   .started = now_on(CLOCK_MONOTONIC)},
                      callbacks()) {}

    ~CudaProbe() override;
    CudaProbe(const CudaProbe &) = delete;
    CudaProbe &operator=(const CudaProbe &) = delete;

    Result<> start() override;
    discovery::Attacher *attacher() override { return programs_ ? this : nullptr; }
    void drain() override;
    std::vector<series::FamilySnapshot> report() override {
        return aggregator_.report(now_on(CLOCK_MONOTONIC));
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.folded();
    }
    [[nodiscard]] std::vector<ApiResource> documents(std::string_view name) const override {
        return programs_ && name == allocations_document_name
                   ? std::vector{allocations_document(aggregator_.allocations())}
                   : std::vector<ApiResource>{};
    }
    void add_to(Overview &overview) const override {
        if (programs_) {
            overview.memory = aggregator_.overview();
        }
    }
    [[nodiscard]] Health health() const override;

    [[nodiscard]] bool wants(std::string_view name) const override;
    [[nodiscard]] bool is_inner(std::string_view name) const override {
        return is_cuda_driver(name);
    }
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id, bool is_changed) override;
    [[nodiscard]] bool must_wait_for(const FileId &id) override {
        return detacher_->must_wait_for(id);
    }
    void failed(std::string_view reason) override { attached_.failed(reason); }

private:
    CudaCallbacks callbacks();
    Result<> open();
    // Where the rings end at a moment: behind that, all events are younger, as far as they are in
    // order.
    struct Mark {
        nanoseconds at;
        std::uint64_t lifecycle;
        std::uint64_t allocations;
        std::uint64_t calls;
    };
    [[nodiscard]] Mark mark(nanoseconds now) const {
        return {now, lifecycle_->produced(), allocations_->produced(), calls_->produced()};
    }
    [[nodiscard]] bool is_passed(const Mark &mark) const {
        return lifecycle_->consumed() >= mark.lifecycle &&
               allocations_->consumed() >= mark.allocations && calls_->consumed() >= mark.calls;
    }
    void drain_rings(nanoseconds now);
    void look_around(nanoseconds now);
    void reconcile();
    void read_table(nanoseconds began, std::uint64_t lost);
    void agree_with_table();

    config::Config::Cuda config_;
    TargetProcessesPtr targets_;
    nanoseconds rescan_interval_;
    ebpf::Features features_;
    discovery::GpuLookup gpus_;
    CudaAggregator aggregator_;
    std::optional<CudaNames> names_;
    std::unique_ptr<CudaPrograms> programs_;
    std::optional<CudaTables> tables_;
    std::unique_ptr<ebpf::Ring> lifecycle_;
    std::unique_ptr<ebpf::Ring> allocations_;
    std::unique_ptr<ebpf::Ring> calls_;
    nanoseconds tidied_{};
    nanoseconds looked_around_{};
    nanoseconds looked_for_losses_{};
    ReconcileSchedule schedule_;
    // What is to be applied once the rings are drained so far. A thread that has no CPU time while
    // it writes a record holds back what is behind it.
    std::optional<Mark> unapplied_;
    // The table of live allocations, to be compared with ours once that has what is older.
    struct Reading {
        LiveTable table;
        Mark since;
        std::uint64_t lost;
    };
    std::optional<Reading> reading_;

    std::atomic<std::uint64_t> undecodable_ = 0;
    std::atomic<std::uint64_t> forgotten_ = 0;
    // When a library was last attached to, since boot: a process that started later was seen whole.
    std::atomic<nanoseconds> last_attached_{nanoseconds::zero()};

    SandboxWarnings sandboxes_{"cuda"};
    AttachedLibraries attached_{"cuda", "no CUDA library in use yet"};
    std::optional<ebpf::Detacher> detacher_;  // there with the programs, and gone before them
};

// Side by side: one after the other, they would take long.
CudaProbe::~CudaProbe() {
    for (auto &[id, probes] : attached_.remove_all()) {
        detacher_->detach({.file = id, .probes = std::move(probes)});
    }
}

CudaCallbacks CudaProbe::callbacks() {
    return {.catch_up = [this] { lifecycle_->drain_to(lifecycle_->produced()); },
            .remember_executable =
                [this](const symbols::Executable &executable) { names_->remember(executable); },
            .ask_for_kernel =
                [this](symbols::CudaKernelRequest request) {
                    names_->ask_for_kernel(std::move(request), *tables_);
                },
            .ask_for_site =
                [this](std::uint64_t ticket, const Process &process, const Site &site) {
                    names_->ask_for_site(ticket, process.key.tgid, process.executable.code_start,
                                         site, *tables_);
                },
            .forget_stack = [this](std::int32_t stack) { tables_->forget_stack(stack); },
            .describe =
                [this](Process &process) {
                    describe(process, gpus_);
                    if (config_.endings != config::Endings::exits) {
                        sandboxes_.look(process);
                    }
                    process.seen_from_start = process.started > last_attached_.load();
                },
            .forget_live = [this](auto keys) { return tables_->forget_live(keys); },
            .end_mappings = [this](auto mappings) { tables_->end_mappings(mappings); }};
}

Result<> CudaProbe::start() {
    const auto opened = open();
    attached_.started(opened);
    return opened;
}

Result<> CudaProbe::open() {
    auto names = CudaNames::start();
    if (!names) {
        return tl::unexpected(names.error());
    }
    names_ = std::move(*names);
    auto programs = CudaPrograms::load(config_, features_);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    auto lifecycle = ebpf::Ring::open((*programs)->lifecycle_ring(), [this](auto bytes) {
        aggregator_.on_allocations_record(bytes);
    });
    auto allocations = ebpf::Ring::open((*programs)->allocations_ring(), [this](auto bytes) {
        aggregator_.on_allocations_record(bytes);
    });
    auto calls = ebpf::Ring::open((*programs)->calls_ring(),
                                  [this](auto bytes) { aggregator_.on_calls_record(bytes); });
    for (const auto *const ring : {&lifecycle, &allocations, &calls}) {
        if (!*ring) {
            return tl::unexpected(ring->error());
        }
    }
    if (auto shared = targets_->share_gpu_processes((*programs)->tables().processes,
                                                    (*programs)->process_filter());
        !shared) {
        return shared;
    }
    programs_ = std::move(*programs);
    detacher_.emplace(programs_->mode());
    if (const CudaPins *pins = programs_->pins()) {
        last_attached_ = pins->last_attached();
    } else if (ebpf::has_pins(config_.pin_path)) {
        log::warn(
            "probes that an earlier exporter pinned are still attached: remove them with "
            "gpusnoop_exporter unpin",
            {{"pins", config_.pin_path}});
    }
    tables_.emplace(programs_->tables());
    lifecycle_ = std::move(*lifecycle);
    allocations_ = std::move(*allocations);
    calls_ = std::move(*calls);
    return {};
}

void CudaProbe::drain() {
    if (!programs_) {
        return;
    }
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    drain_rings(now);
    agree_with_table();
    if (now - looked_for_losses_ > std::chrono::milliseconds(200)) {
        looked_for_losses_ = now;
        reconcile();
    }
    if (now - tidied_ > std::chrono::seconds(1)) {
        tidied_ = now;
        aggregator_.tidy(now);
    }
    look_around(now);
    undecodable_ = aggregator_.undecodable();
    forgotten_ = aggregator_.forgotten();
}

void CudaProbe::drain_rings(nanoseconds now) {
    // In this order: the names of what is launched are then among the allocations, and each process
    // is known before what it does.
    const std::uint64_t calls_end = calls_->produced();
    const std::uint64_t allocations_end = allocations_->produced();
    const std::uint64_t lifecycle_end = lifecycle_->produced();
    if (!unapplied_) {
        unapplied_ = Mark{now, lifecycle_end, allocations_end, calls_end};
    }
    lifecycle_->drain_to(lifecycle_end);
    allocations_->drain_to(allocations_end);
    calls_->drain_to(calls_end);
    names_->hand_answers_to(aggregator_);
    if (is_passed(*unapplied_)) {
        aggregator_.apply_until(unapplied_->at);
        unapplied_.reset();
    }
}

void CudaProbe::look_around(nanoseconds now) {
    if (now - looked_around_ < rescan_interval_) {
        return;
    }
    looked_around_ = now;
    aggregator_.scan(now);
    tables_->forget_registered_of_ended();
}

// Where records of allocations were lost, or an exporter before this one has kept the table, that
// says what is allocated. Reading it takes time, so it is not done all the time.
void CudaProbe::reconcile() {
    const auto account = ebpf::read_account(programs_->account_map());
    const nanoseconds began = now_on(CLOCK_MONOTONIC);
    const std::uint64_t lost = account ? account->lost[LOST_ring_full] : 0;
    if (reading_ || !schedule_.is_due(began, lost, aggregator_.wants_reconciling())) {
        return;
    }
    const nanoseconds cpu_before = now_on(CLOCK_THREAD_CPUTIME_ID);
    read_table(began, lost);
    agree_with_table();
    schedule_.read(now_on(CLOCK_MONOTONIC), now_on(CLOCK_THREAD_CPUTIME_ID) - cpu_before);
}

void CudaProbe::read_table(nanoseconds began, std::uint64_t lost) {
    aggregator_.watch_frees();
    auto table = tables_->read(began);
    if (!table) {
        log::warn("cannot read the table of live allocations", {{"reason", table.error().message}});
        return;
    }
    reading_ = Reading{*std::move(table), mark(now_on(CLOCK_MONOTONIC)), lost};
    drain_rings(reading_->since.at);
}

void CudaProbe::agree_with_table() {
    if (!reading_ || !is_passed(reading_->since)) {
        return;
    }
    aggregator_.apply_until(reading_->since.at);
    aggregator_.reconcile(reading_->table);
    schedule_.reconciled(reading_->lost);
    reading_.reset();
}

bool CudaProbe::wants(std::string_view name) const {
    const std::string file(name);
    for (const std::string &glob : config_.libraries) {
        if (::fnmatch(glob.c_str(), file.c_str(), 0) == 0) {
            return true;
        }
    }
    return false;
}

Result<> CudaProbe::attach(const discovery::Library &library) {
    const CudaPins *pins = programs_->pins();
    if (pins != nullptr) {
        if (auto adopted = pins->adopt(library)) {
            attached_.add(library, std::move(*adopted), programs_->mode(), "still attached");
            return {};
        }
    }
    const auto places = programs_->find(library);
    if (!places) {
        failed(places.error().reason);
        return tl::unexpected(places.error().error);
    }
    if (places->points.empty()) {
        return {};  // a program without a runtime of its own
    }
    auto kept = detacher_->take_back(library.id);
    // Before and after: a process that starts meanwhile may be seen from the middle on.
    const nanoseconds before = last_attached_.exchange(nanoseconds::max());
    auto probes = programs_->attach(library, *places, std::move(kept).value_or(ebpf::UprobeSet{}));
    last_attached_ = probes ? now_on(CLOCK_BOOTTIME) : before;
    if (!probes) {
        failed(probes.error().reason);
        return tl::unexpected(probes.error().error);
    }
    if (pins != nullptr) {
        if (auto pinned = pins->keep(*probes, library); !pinned) {
            failed("pin");
            return pinned;
        }
    }
    attached_.add(library, std::move(*probes), programs_->mode(), "attached");
    return {};
}

void CudaProbe::detach(const FileId &id, bool is_changed) {
    if (auto probes = attached_.remove(id)) {
        if (const CudaPins *pins = programs_->pins()) {
            pins->forget(id);
        }
        detacher_->detach({.file = id, .probes = *std::move(probes), .is_changed = is_changed});
    }
}

Health CudaProbe::health() const {
    Health health = attached_.health();
    health.undecodable = undecodable_;
    health.forgotten = forgotten_;
    if (programs_) {
        add_counts(health, programs_->account_map(), programs_->runs());
    }
    return health;
}

std::unique_ptr<Probe> make_cuda(const config::Config &config, const ebpf::Features &features,
                                 const TargetProcessesPtr &targets) {
    return config.cuda.enabled ? std::make_unique<CudaProbe>(config, features, targets) : nullptr;
}

std::vector<series::FamilySet> declare_cuda_families() {
    auto sets = declare_families<make_cuda_families>();
    make_cuda_gauges(sets.emplace_back(one_for_each, true));
    return sets;
}

}  // namespace

constinit const ProbeKind cuda_kind = {
    .name = "cuda",
    .title = "CUDA",
    .make = make_cuda,
    .declare = declare_cuda_families,
    .trace = &trace::cuda_trace,
};

}  // namespace gpusnoop::probes
