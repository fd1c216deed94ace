#include "exporter/probes/nvlink.h"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "exporter/base/log.h"
#include "exporter/base/machine.h"
#include "exporter/probes/attached_libraries.h"
#include "exporter/probes/budget.h"
#include "exporter/probes/nvlink_aggregator.h"
#include "exporter/probes/nvlink_programs.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// Up while the driver has one of the helpers. The driver can come and go, so a thread of its own
// looks for them: attaching takes a while.
class NvlinkProbe final : public Probe {
public:
    // With `on_call` it traces.
    explicit NvlinkProbe(const config::Config &config, OnHelper on_call = nullptr)
        : config_(config.nvlink),
          on_call_(std::move(on_call)),
          rescan_interval_(config.discovery.rescan_interval),
          aggregator_(budget_of(config.series), config.labels.pid, config.series.retention) {}

    Result<> start() override;
    void drain() override;
    std::vector<series::FamilySnapshot> report() override {
        return programs_ ? aggregator_.families().snapshots()
                         : std::vector<series::FamilySnapshot>{};
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.families().folded();
    }
    [[nodiscard]] Health health() const override;

private:
    void look();
    void watch(const std::stop_token &stop);

    config::Config::Nvlink config_;
    OnHelper on_call_;
    nanoseconds rescan_interval_;
    NvlinkAggregator aggregator_;
    std::unique_ptr<NvlinkPrograms> programs_;
    nanoseconds rebalanced_{};
    nanoseconds tidied_{};

    mutable std::mutex mutex_;
    std::condition_variable_any wake_;
    std::string down_because_ = "not started";
    std::size_t functions_ = 0;
    std::uint64_t failures_ = 0;
    std::jthread watcher_;  // stops before the others go
};

Result<> NvlinkProbe::start() {
    OnHelper count = [this](const nvlink_record &record) { aggregator_.on_record(record); };
    auto programs = NvlinkPrograms::load(config_, on_call_ ? on_call_ : std::move(count));
    if (!programs) {
        down_because_ = programs.error().message;
        return tl::unexpected(programs.error());
    }
    programs_ = std::move(*programs);
    look();
    watcher_ = std::jthread([this](const std::stop_token &stop) { watch(stop); });
    return {};
}

void NvlinkProbe::look() {
    const auto attached = programs_->look();
    const std::lock_guard lock(mutex_);
    const std::size_t before = functions_;
    functions_ = attached ? *attached : 0;
    if (!attached) {
        failures_++;
        down_because_ = attached.error().message;
        log::warn("cannot attach", {{"probe", "nvlink"}, {"reason", down_because_}});
        return;
    }
    down_because_ = functions_ > 0 ? ""
                                   : "no module has nvlink_strcpy, nvlink_memcpy or "
                                     "nvlink_memset: no NVIDIA driver with NVLink is loaded";
    if (functions_ != before) {
        log::info(functions_ > 0 ? "attached" : "detached: the driver is gone",
                  {{"probe", "nvlink"}, {"functions", functions_}});
    }
}

void NvlinkProbe::watch(const std::stop_token &stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
        wake_.wait_for(lock, stop, rescan_interval_, [] { return false; });
        if (!stop.stop_requested()) {
            lock.unlock();
            look();
            lock.lock();
        }
    }
}

void NvlinkProbe::drain() {
    if (!programs_) {
        return;
    }
    programs_->drain();
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    if (now - rebalanced_ > std::chrono::seconds(1)) {
        rebalanced_ = now;
        aggregator_.families().rebalance();
    }
    if (now - tidied_ >= rescan_interval_) {
        tidied_ = now;
        aggregator_.tidy(now);
    }
}

Health NvlinkProbe::health() const {
    Health health;
    health.name = "nvlink";
    {
        const std::lock_guard lock(mutex_);
        health.up = down_because_.empty();
        health.detail = health.up ? "attached by kprobes" : down_because_;
        health.attached_functions = functions_;
        if (failures_ > 0) {
            health.attach_failures["attach"] = failures_;
        }
    }
    if (programs_) {
        health.undecodable = programs_->undecodable();
        add_counts(health, programs_->account_map(), programs_->runs());
    }
    return health;
}

}  // namespace

std::unique_ptr<Probe> make_nvlink(const config::Config &config,
                                   const kernel::Features & /*features*/) {
    return config.nvlink.enabled ? std::make_unique<NvlinkProbe>(config) : nullptr;
}

std::unique_ptr<Probe> make_nvlink_tracer(const config::Config &config, OnHelper on_call) {
    return std::make_unique<NvlinkProbe>(config, std::move(on_call));
}

}  // namespace gpusnoop::probes
