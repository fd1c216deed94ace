#include "exporter/probes/functions/consumer.h"

#include <cstdint>
#include <utility>

#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

Result<std::unique_ptr<FunctionsConsumer>> FunctionsConsumer::open(const FunctionPrograms &programs,
                                                                   FunctionIds &ids,
                                                                   CallReporter &calls,
                                                                   FunctionsAggregator &aggregator,
                                                                   const Settings &settings) {
    std::unique_ptr<FunctionsConsumer> consumer(
        new FunctionsConsumer(ids, calls, aggregator, settings));
    const std::pair<RingPtr *, int> rings[] = {{&consumer->lifecycle_, programs.lifecycle_ring()},
                                               {&consumer->calls_, programs.calls_ring()},
                                               {&consumer->slow_calls_, programs.slow_ring()}};
    for (const auto &[ring, map] : rings) {
        auto opened =
            ebpf::Ring::open(map, [&aggregator](auto bytes) { aggregator.on_record(bytes); });
        if (!opened) {
            return tl::unexpected(opened.error());
        }
        *ring = std::move(*opened);
    }
    return consumer;
}

bool FunctionsConsumer::drain_rings() {
    // Positions in this order, and records in the other one: each process is known before what it
    // does, and a communicator that took long to make before its operations.
    const std::uint64_t calls_until = calls_->produced();
    const std::uint64_t slow_until = slow_calls_->produced();
    const std::uint64_t lifecycle_until = lifecycle_->produced();
    lifecycle_->drain_to(lifecycle_until);
    const bool all_slow_calls = slow_calls_->drain_to(slow_until);
    const bool all_calls = calls_->drain_to(calls_until);
    return all_calls && all_slow_calls;
}

void FunctionsConsumer::drain() {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    reporter_.begin_round(now);
    // Before the records: calls that were sent before a change count as before it.
    const std::uint64_t changes = ids_.queued();
    const bool has_all = drain_rings();
    reporter_.end_round();
    if (has_all) {
        if (const auto replaced = ids_.apply(changes)) {
            aggregator_.refresh(*replaced, now);
        }
        // Else, a process that had ended by `now` could have calls that are not read yet.
        if (now - tidied_ > std::chrono::seconds(1)) {
            tidied_ = now;
            aggregator_.tidy(now);
        }
    }
    if (now - rescanned_ >= rescan_interval_) {
        rescanned_ = now;
        aggregator_.processes().scan(now);
    }
    if (report_.is_due(now)) {
        if (const auto rows = report_.make(aggregator_.snapshot(now))) {
            write_to_log(*rows);
        }
    }
}

}  // namespace gpusnoop::probes
