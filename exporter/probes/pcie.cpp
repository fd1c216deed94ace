#include "exporter/probes/pcie.h"

#include <mutex>

#include "exporter/base/machine.h"
#include "exporter/probes/attached_libraries.h"
#include "exporter/probes/budget.h"
#include "exporter/probes/pcie_aggregator.h"
#include "exporter/probes/pcie_programs.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

class PcieProbe final : public Probe {
public:
    // With `on_access` it traces.
    explicit PcieProbe(const config::Config &config, OnAccess on_access = nullptr)
        : config_(config.pcie),
          on_access_(std::move(on_access)),
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
    config::Config::Pcie config_;
    OnAccess on_access_;
    nanoseconds rescan_interval_;
    PcieAggregator aggregator_;
    std::string down_because_ = "not started";  // set before other threads look
    std::unique_ptr<PciePrograms> programs_;
    nanoseconds rebalanced_{};
    nanoseconds looked_around_{};
};

Result<> PcieProbe::start() {
    OnAccess count = [this](const pcie_record &record) { aggregator_.on_record(record); };
    auto programs = PciePrograms::load(config_, on_access_ ? on_access_ : std::move(count));
    if (!programs) {
        down_because_ = programs.error().message;
        return tl::unexpected(programs.error());
    }
    programs_ = std::move(*programs);
    looked_around_ = now_on(CLOCK_MONOTONIC);
    return {};
}

void PcieProbe::drain() {
    if (!programs_) {
        return;
    }
    programs_->drain();
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    if (now - rebalanced_ > std::chrono::seconds(1)) {
        rebalanced_ = now;
        aggregator_.families().rebalance();
    }
    if (now - looked_around_ >= rescan_interval_) {
        looked_around_ = now;
        programs_->find_devices();
        aggregator_.tidy(now);
    }
}

Health PcieProbe::health() const {
    Health health;
    health.name = "pcie";
    health.up = programs_ != nullptr;
    health.detail = health.up ? "attached by kprobes" : down_because_;
    if (programs_) {
        health.attached_functions = programs_->functions();
        if (programs_->failures() > 0) {
            health.attach_failures["attach"] = programs_->failures();
        }
        health.undecodable = programs_->undecodable();
        add_counts(health, programs_->account_map(), programs_->runs());
    }
    return health;
}

}  // namespace

std::unique_ptr<Probe> make_pcie(const config::Config &config,
                                 const kernel::Features & /*features*/) {
    return config.pcie.enabled ? std::make_unique<PcieProbe>(config) : nullptr;
}

std::unique_ptr<Probe> make_pcie_tracer(const config::Config &config, OnAccess on_access) {
    return std::make_unique<PcieProbe>(config, std::move(on_access));
}

}  // namespace gpusnoop::probes
