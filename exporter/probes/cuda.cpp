#include "exporter/probes/cuda.h"

#include <fnmatch.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "exporter/base/log.h"
#include "exporter/base/text.h"
#include "exporter/discovery/proc.h"
#include "exporter/kernel/account.h"
#include "exporter/kernel/ring.h"
#include "exporter/probes/cuda_aggregator.h"
#include "exporter/probes/cuda_programs.h"
#include "exporter/symbols/kernel_resolver.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t max_label_bytes = 128;

nanoseconds now_on(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

Budget budget_of(const config::Config::Series &series) {
    return [series](std::string_view family) {
        const auto own = series.budgets.find(std::string(family));
        return own == series.budgets.end() ? series.budget : own->second;
    };
}

class CudaProbe final : public Probe, public discovery::Attacher {
public:
    CudaProbe(const config::Config &config, kernel::Features features)
        : config_(config.cuda),
          rescan_interval_(config.discovery.rescan_interval),
          features_(std::move(features)),
          aggregator_(CudaSettings{.budget = budget_of(config.series),
                                   .pid_label = config.labels.pid,
                                   .retention = config.series.retention},
                      surroundings()) {}

    Result<> start() override;
    discovery::Attacher *attacher() override { return programs_ ? this : nullptr; }
    void drain() override;
    std::vector<series::FamilySnapshot> report() override {
        return aggregator_.report(now_on(CLOCK_MONOTONIC));
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.folded();
    }
    [[nodiscard]] Health health() const override;

    [[nodiscard]] bool wants(std::string_view name) const override;
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id) override;
    void failed(std::string_view reason) override;

private:
    struct Attached {
        std::string name;
        kernel::UprobeSet probes;
    };

    CudaSurroundings surroundings();
    Result<> open();
    void describe(Process &process) const;
    void look_for_ended(nanoseconds now);

    config::Config::Cuda config_;
    nanoseconds rescan_interval_;
    kernel::Features features_;
    std::unique_ptr<symbols::KernelResolver> resolver_;
    CudaAggregator aggregator_;
    std::unique_ptr<CudaPrograms> programs_;
    std::unique_ptr<kernel::Ring> allocations_;
    std::unique_ptr<kernel::Ring> calls_;
    nanoseconds tidied_{};
    nanoseconds looked_for_ended_{};
    std::vector<ProcessKey> gone_;  // at the last look

    std::atomic<std::uint64_t> undecodable_ = 0;
    // When a library was last attached to, since boot: a process that started later was seen whole.
    std::atomic<nanoseconds> last_attached_{nanoseconds::zero()};

    // What the discovery thread changes and health() reads.
    mutable std::mutex mutex_;
    std::string down_because_ = "not started";
    std::map<FileId, Attached> attached_;
    std::map<std::string, std::uint64_t> attach_failures_;
};

CudaSurroundings CudaProbe::surroundings() {
    return {.catch_up = [this] { allocations_->drain_to(allocations_->produced()); },
            .remember_executable =
                [this](const symbols::Executable &executable) { resolver_->remember(executable); },
            .ask_for_kernel =
                [this](symbols::KernelRequest request) { resolver_->ask(std::move(request)); },
            .describe = [this](Process &process) { describe(process); }};
}

Result<> CudaProbe::start() {
    const auto opened = open();
    const std::lock_guard lock(mutex_);
    down_because_ = opened ? "" : opened.error().message;
    return opened;
}

Result<> CudaProbe::open() {
    auto resolver = symbols::KernelResolver::start();
    if (!resolver) {
        return tl::unexpected(resolver.error());
    }
    resolver_ = std::move(*resolver);
    auto programs = CudaPrograms::load(config_, features_);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    auto allocations = kernel::Ring::open((*programs)->allocations_ring(), [this](auto bytes) {
        aggregator_.on_allocations_record(bytes);
    });
    auto calls = kernel::Ring::open((*programs)->calls_ring(),
                                    [this](auto bytes) { aggregator_.on_calls_record(bytes); });
    if (!allocations || !calls) {
        return tl::unexpected(!allocations ? allocations.error() : calls.error());
    }
    programs_ = std::move(*programs);
    allocations_ = std::move(*allocations);
    calls_ = std::move(*calls);
    return {};
}

void CudaProbe::drain() {
    if (!programs_) {
        return;
    }
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    const std::uint64_t allocations_end = allocations_->produced();
    const std::uint64_t calls_end = calls_->produced();
    const bool allocations_complete = allocations_->drain_to(allocations_end);
    const bool calls_complete = calls_->drain_to(calls_end);
    for (const symbols::KernelAnswer &answer : resolver_->answers()) {
        aggregator_.on_kernel_name(answer);
    }
    if (allocations_complete && calls_complete) {  // else the next round has it all
        aggregator_.settle(now);
    }
    if (now - tidied_ > std::chrono::seconds(1)) {
        aggregator_.tidy(now);
        tidied_ = now;
    }
    look_for_ended(now);
    undecodable_ = aggregator_.undecodable();
}

// The net below the exit records, should one be lost. What is gone at one look is taken for ended
// only at the next, when all its records have been seen.
void CudaProbe::look_for_ended(nanoseconds now) {
    if (now - looked_for_ended_ < rescan_interval_) {
        return;
    }
    looked_for_ended_ = now;
    std::vector<ProcessKey> gone;
    for (const auto &[key, started] : aggregator_.running()) {
        if (discovery::presence(key.tgid, started) != discovery::Presence::gone) {
            continue;
        }
        if (std::ranges::find(gone_, key) != gone_.end()) {
            aggregator_.assume_ended(key, now);
        } else {
            gone.push_back(key);
        }
    }
    gone_ = std::move(gone);
}

void CudaProbe::describe(Process &process) const {
    if (process.started == nanoseconds::zero()) {  // its record did not say
        process.started = discovery::start_time(process.key.tgid).value_or(nanoseconds::zero());
    }
    process.book_is_complete = process.started > last_attached_.load();
    if (discovery::presence(process.key.tgid, process.started) != discovery::Presence::running) {
        return;
    }
    if (const std::string exe = discovery::executable_path(process.key.tgid); !exe.empty()) {
        process.exe = to_valid_utf8(exe, max_label_bytes);
    }
    const discovery::ContainerIdentity identity = discovery::container_of(process.key.tgid);
    if (!identity.container_id.empty()) {
        process.container = identity.container_id;
        process.pod_uid = identity.pod_uid;
    }
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
    // Before and after: a process that starts meanwhile may be seen from the middle on.
    last_attached_ = nanoseconds::max();
    auto probes = programs_->attach(library);
    last_attached_ = now_on(CLOCK_BOOTTIME);
    if (!probes) {
        failed(probes.error().reason);
        return tl::unexpected(probes.error().error);
    }
    const std::string name = to_valid_utf8(library.name, max_label_bytes);
    log::info("attached", {{"probe", "cuda"},
                           {"library", name},
                           {"functions", probes->functions()},
                           {"inode", library.id.inode},
                           {"mode", to_string(programs_->mode())}});
    const std::lock_guard lock(mutex_);
    attached_.insert_or_assign(library.id, Attached{name, std::move(*probes)});
    return {};
}

void CudaProbe::detach(const FileId &id) {
    // Detaching waits for running probes: not under the lock.
    decltype(attached_)::node_type gone;
    {
        const std::lock_guard lock(mutex_);
        gone = attached_.extract(id);
    }
    if (gone) {
        log::info("detached: no process uses it any more",
                  {{"probe", "cuda"}, {"library", gone.mapped().name}, {"inode", id.inode}});
    }
}

void CudaProbe::failed(std::string_view reason) {
    const std::lock_guard lock(mutex_);
    attach_failures_[std::string(reason)]++;
}

Health CudaProbe::health() const {
    Health health;
    health.name = "cuda";
    health.undecodable = undecodable_;
    if (programs_) {
        if (const auto account = kernel::read_account(programs_->account_map())) {
            health.account = *account;
        }
        const Runs runs = programs_->runs();
        health.runs = runs.count;
        health.run_nanoseconds = runs.nanoseconds;
    }
    const std::lock_guard lock(mutex_);
    health.up = down_because_.empty();
    health.detail = down_because_;
    health.attach_failures = attach_failures_;
    for (const auto &[id, one] : attached_) {
        health.attached_functions += one.probes.functions();
        health.libraries.push_back(one.name);
    }
    if (health.up) {
        health.detail = attached_.empty()
                            ? "no CUDA library in use yet"
                            : "attached by " + std::string(to_string(programs_->mode()));
    }
    return health;
}

}  // namespace

std::unique_ptr<Probe> make_cuda(const config::Config &config, const kernel::Features &features) {
    if (!config.cuda.enabled) {
        return nullptr;
    }
    return std::make_unique<CudaProbe>(config, features);
}

}  // namespace gpusnoop::probes
