#include "exporter/probes/syscall.h"

#include <atomic>
#include <mutex>

#include "exporter/base/log.h"
#include "exporter/base/machine.h"
#include "exporter/kernel/record.h"
#include "exporter/kernel/ring.h"
#include "exporter/probes/attached_libraries.h"
#include "exporter/probes/budget.h"
#include "exporter/probes/syscall_aggregator.h"
#include "exporter/probes/syscall_programs.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

class SyscallProbe final : public Probe {
public:
    // With `on_call` it traces.
    SyscallProbe(const config::Config &config, TargetsPtr targets, OnSyscall on_call)
        : config_(config.syscall),
          on_call_(std::move(on_call)),
          rescan_interval_(config.discovery.rescan_interval),
          targets_(std::move(targets)),
          aggregator_({.budget = budget_of(config.series),
                       .pid_label = config.labels.pid,
                       .retention = config.series.retention},
                      look_up) {}

    Result<> start() override;
    void drain() override;
    std::vector<series::FamilySnapshot> report() override;
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.families().folded();
    }
    [[nodiscard]] Health health() const override;

private:
    Result<> open();
    void on_record(std::span<const std::byte> bytes);
    void read_tables(bool tidy);

    config::Config::Syscall config_;
    OnSyscall on_call_;
    nanoseconds rescan_interval_;
    TargetsPtr targets_;
    SyscallAggregator aggregator_;
    std::unique_ptr<SyscallPrograms> programs_;
    std::unique_ptr<kernel::Ring> records_;
    nanoseconds tidied_{};
    nanoseconds looked_around_{};
    EndedProcesses ended_;
    std::uint64_t untold_ = 0;  // records of a trace that were none
    std::atomic<std::uint64_t> undecodable_ = 0;
    std::string down_because_ = "not started";  // written before any other thread sees the probe
};

Result<> SyscallProbe::start() {
    const auto opened = open();
    down_because_ = opened ? "" : opened.error().message;
    return opened;
}

Result<> SyscallProbe::open() {
    if (auto started = targets_->start(); !started) {
        return started;
    }
    auto programs = SyscallPrograms::load(
        config_, *targets_, on_call_ ? SyscallPrograms::Mode::trace : SyscallPrograms::Mode::count);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    auto records =
        kernel::Ring::open((*programs)->records_ring(), [this](auto bytes) { on_record(bytes); });
    if (!records) {
        return tl::unexpected(records.error());
    }
    programs_ = std::move(*programs);
    records_ = std::move(*records);
    log::info("tracing system calls",
              {{"probe", "syscall"}, {"of", targets_->describe()}, {"at", programs_->at()}});
    return {};
}

void SyscallProbe::on_record(std::span<const std::byte> bytes) {
    if (!on_call_) {
        aggregator_.on_record(bytes);
        return;
    }
    TracedProcesses &processes = aggregator_.processes();
    if (processes.on_record(bytes)) {
        return;
    }
    const auto record = kernel::decode<syscall_record>(bytes);
    if (record && record->head.type == SYSCALL_RECORD) {
        on_call_(*record, processes.of({record->head.tgid, record->head.since_ns}));
    } else {
        untold_++;
    }
}

void SyscallProbe::drain() {
    if (!programs_) {
        return;
    }
    records_->drain_to(records_->produced());
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    if (now - tidied_ > std::chrono::seconds(1)) {
        tidied_ = now;
        read_tables(true);
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

void SyscallProbe::read_tables(bool tidy) {
    // Who had ended before this has its last calls in the reading.
    const nanoseconds began = now_on(CLOCK_MONOTONIC);
    const auto reading = programs_->read();
    if (!reading) {
        log::warn("cannot read the table of system calls", {{"reason", reading.error().message}});
        return;
    }
    // Of processes that came before the reading, the records are in the ring.
    records_->drain_to(records_->produced());
    aggregator_.on_reading(*reading);
    if (tidy) {
        programs_->forget(*reading, aggregator_.tidy(began, began));
    }
}

std::vector<series::FamilySnapshot> SyscallProbe::report() {
    if (programs_) {
        read_tables(false);
    }
    return aggregator_.families().snapshots();
}

Health SyscallProbe::health() const {
    Health health;
    health.name = "syscall";
    health.up = down_because_.empty();
    health.detail = health.up ? "tracing " + targets_->describe() : down_because_;
    health.undecodable = undecodable_;
    if (programs_) {
        health.attached_functions = programs_->attached();
        add_counts(health, programs_->account_map(), programs_->runs());
    }
    return health;
}

}  // namespace

std::unique_ptr<Probe> make_syscall(const config::Config &config, const kernel::Features &,
                                    const TargetsPtr &targets) {
    if (!config.syscall.enabled) {
        return nullptr;
    }
    return std::make_unique<SyscallProbe>(config, targets, nullptr);
}

std::unique_ptr<Probe> make_syscall_tracer(const config::Config &config, const TargetsPtr &targets,
                                           OnSyscall on_call) {
    return std::make_unique<SyscallProbe>(config, targets, std::move(on_call));
}

}  // namespace gpusnoop::probes
