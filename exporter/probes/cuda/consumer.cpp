#include "exporter/probes/cuda/consumer.h"

#include "exporter/base/log.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

Result<CudaNames> CudaNames::start(PythonTables python) {
    auto kernels = symbols::CudaKernelResolver::start();
    if (!kernels) {
        return tl::unexpected(kernels.error());
    }
    auto sites = PythonSites::start(std::move(python));
    if (!sites) {
        return tl::unexpected(sites.error());
    }
    return CudaNames(std::move(*kernels), std::move(*sites));
}

void CudaNames::ask_for_kernel(symbols::CudaKernelRequest request, const CudaTables &tables) {
    request.name_pointer = tables.registered_name(request.executable.tgid, request.address);
    kernels_->ask(std::move(request));
}

void CudaNames::ask_for_site(std::uint64_t ticket, const ProcessKey &process,
                             std::uint64_t code_start, const Site &site, const CudaTables &tables) {
    sites_.ask({.ticket = ticket,
                .tgid = process.tgid,
                .addresses = tables.addresses_of(site),
                .code_start = code_start},
               process, site.python);
}

void CudaNames::hand_answers_to(CudaAggregator &aggregator) {
    for (const symbols::CudaKernelReply &answer : kernels_->answers()) {
        aggregator.on_kernel_name(answer);
    }
    sites_.hand_answers_to(
        [&](symbols::StackReply answer) { aggregator.on_site_name(std::move(answer)); });
}

Result<CudaRings> CudaRings::open(const CudaPrograms &programs, CudaAggregator &aggregator) {
    const auto take_allocations = [&aggregator](auto bytes) {
        aggregator.on_allocations_record(bytes);
    };
    auto lifecycle = ebpf::Ring::open(programs.lifecycle_ring(), take_allocations);
    auto allocations = ebpf::Ring::open(programs.allocations_ring(), take_allocations);
    auto calls = ebpf::Ring::open(programs.calls_ring(),
                                  [&aggregator](auto bytes) { aggregator.on_calls_record(bytes); });
    for (const auto *const ring : {&lifecycle, &allocations, &calls}) {
        if (!*ring) {
            return tl::unexpected(ring->error());
        }
    }
    return CudaRings(std::move(*lifecycle), std::move(*allocations), std::move(*calls));
}

CudaRings::Mark CudaRings::mark(std::chrono::nanoseconds now) const {
    // Reads the ends in the opposite order of draining: the records that a call's record needs were
    // written before it.
    const std::uint64_t calls_end = calls_->produced();
    const std::uint64_t allocations_end = allocations_->produced();
    return {now, lifecycle_->produced(), allocations_end, calls_end};
}

bool CudaRings::is_passed(const Mark &mark) const {
    return lifecycle_->consumed() >= mark.lifecycle &&
           allocations_->consumed() >= mark.allocations && calls_->consumed() >= mark.calls;
}

void CudaRings::drain_to(const Mark &mark) {
    lifecycle_->drain_to(mark.lifecycle);
    allocations_->drain_to(mark.allocations);
    calls_->drain_to(mark.calls);
}

using std::chrono::nanoseconds;

namespace {

// Of the launches that were counted in the kernel, besides for each page.
constexpr std::chrono::milliseconds between_readings{250};

}  // namespace

Result<std::unique_ptr<CudaConsumer>> CudaConsumer::start(const CudaPrograms &programs,
                                                          CudaAggregator &aggregator,
                                                          nanoseconds rescan_interval) {
    auto names = CudaNames::start(
        {programs.python_tables(), [tables = CudaTables(programs.tables())](const auto &process) {
             return tables.is_running(process);
         }});
    if (!names) {
        return tl::unexpected(names.error());
    }
    auto rings = CudaRings::open(programs, aggregator);
    if (!rings) {
        return tl::unexpected(rings.error());
    }
    return std::unique_ptr<CudaConsumer>(new CudaConsumer(programs, aggregator, rescan_interval,
                                                          std::move(*names), std::move(*rings)));
}

CudaConsumer::CudaConsumer(const CudaPrograms &programs, CudaAggregator &aggregator,
                           nanoseconds rescan_interval, CudaNames names, CudaRings rings)
    : programs_(programs),
      aggregator_(aggregator),
      rescan_interval_(rescan_interval),
      names_(std::move(names)),
      tables_(programs.tables()),
      launches_(tables_),
      rings_(std::move(rings)) {}

void CudaConsumer::drain() {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    drain_rings(rings_.mark(now));
    if (aggregator_.any_ended() || now - read_launches_ > between_readings) {
        read_launches();
    }
    reconcile();
    if (now - looked_for_losses_ > std::chrono::milliseconds(200)) {
        looked_for_losses_ = now;
        read_table_if_due();
    }
    // Not while the last launches of a process that has ended are still to be read.
    if (now - tidied_ > std::chrono::seconds(1) && !aggregator_.any_ended()) {
        tidied_ = now;
        aggregator_.tidy(now);
    }
    rescan(now);
}

void CudaConsumer::read_launches() {
    read_launches_ = now_on(CLOCK_MONOTONIC);
    (void)aggregator_.take_ended();
    if (!programs_.has_counted() && !launches_.has_earlier()) {
        return;
    }
    const auto entries = launches_.read(aggregator_);
    // What their kernels are called was sent before they were counted.
    drain_rings(rings_.mark(now_on(CLOCK_MONOTONIC)));
    for (const CountedLaunchTable::Entry &entry : entries) {
        (void)aggregator_.on_counted_launches(entry.key, entry.count);
    }
    launches_.forget_last(entries);
}

void CudaConsumer::drain_rings(const CudaRings::Mark &end) {
    if (!unapplied_) {
        unapplied_ = end;
    }
    rings_.drain_to(end);
    names_.hand_answers_to(aggregator_);
    if (rings_.is_passed(*unapplied_)) {
        aggregator_.apply_until(unapplied_->at);
        unapplied_.reset();
    }
}

void CudaConsumer::rescan(nanoseconds now) {
    if (now - rescanned_ < rescan_interval_) {
        return;
    }
    rescanned_ = now;
    aggregator_.scan(now);
    tables_.forget_registered_of_ended();
    tables_.forget_ended_captures();
    if (schedule_.has_reconciled()) {  // before, it is not known what an earlier exporter has kept
        names_.sites().rescan(aggregator_.running(), now, aggregator_.python_stacks());
    }
}

// If records of allocations were lost, or an earlier exporter has kept the table, the table has the
// live allocations. Reading it takes time, so it is read only when needed.
void CudaConsumer::read_table_if_due() {
    const auto account = ebpf::read_account(programs_.account_map());
    const nanoseconds began = now_on(CLOCK_MONOTONIC);
    const std::uint64_t lost = account ? account->lost[LOST_ring_full] : 0;
    if (reading_ || !schedule_.is_due(began, lost, aggregator_.wants_reconciling())) {
        return;
    }
    const nanoseconds cpu_before = now_on(CLOCK_THREAD_CPUTIME_ID);
    read_table(began, lost);
    reconcile();
    schedule_.read(now_on(CLOCK_MONOTONIC), now_on(CLOCK_THREAD_CPUTIME_ID) - cpu_before);
}

void CudaConsumer::read_table(nanoseconds began, std::uint64_t lost) {
    aggregator_.watch_ends();
    auto table = tables_.read(began);
    if (!table) {
        log::warn("cannot read the table of live allocations", {{"reason", table.error().message}});
        return;
    }
    reading_ = Reading{*std::move(table), rings_.mark(now_on(CLOCK_MONOTONIC)), lost};
    drain_rings(rings_.mark(reading_->since.at));
}

// Reconciles with the table that was read, once all older records are drained.
void CudaConsumer::reconcile() {
    if (!reading_ || !rings_.is_passed(reading_->since)) {
        return;
    }
    aggregator_.apply_until(reading_->since.at);
    aggregator_.reconcile(reading_->table);
    schedule_.reconciled(reading_->lost);
    reading_.reset();
}

}  // namespace gpusnoop::probes
