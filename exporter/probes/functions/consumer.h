// Brings what the programs of the functions probe have sent to the aggregator, in the right order.
// On the aggregating thread.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/attach/programs.h"
#include "exporter/probes/functions/count/aggregator.h"
#include "exporter/probes/functions/report/call_details.h"
#include "exporter/probes/functions/report/log_report.h"

namespace gpusnoop::probes {

class FunctionsConsumer {
public:
    struct Settings {
        std::chrono::nanoseconds rescan_interval;
        FunctionsConfig::Report report;
        std::chrono::nanoseconds since;  // when the counting began, on the monotonic clock
    };

    // All that it refers to must outlive it.
    static Result<std::unique_ptr<FunctionsConsumer>> open(const FunctionPrograms &programs,
                                                           FunctionIds &ids, CallReporter &calls,
                                                           FunctionsAggregator &aggregator,
                                                           const Settings &settings);

    void drain();
    [[nodiscard]] std::vector<int> ring_fds() const {
        return {lifecycle_->fd(), calls_->fd(), slow_calls_->fd()};
    }

private:
    using RingPtr = std::unique_ptr<ebpf::Ring>;
    FunctionsConsumer(FunctionIds &ids, CallReporter &reporter, FunctionsAggregator &aggregator,
                      const Settings &settings)
        : ids_(ids),
          reporter_(reporter),
          aggregator_(aggregator),
          rescan_interval_(settings.rescan_interval),
          report_(settings.report, settings.since) {}

    // Whether the rings were read as far as they were written at the beginning.
    bool drain_rings();

    FunctionIds &ids_;
    CallReporter &reporter_;
    FunctionsAggregator &aggregator_;
    std::chrono::nanoseconds rescan_interval_;
    LogReport report_;
    RingPtr lifecycle_, calls_, slow_calls_;
    // When each was done last.
    std::chrono::nanoseconds tidied_{};
    std::chrono::nanoseconds rescanned_{};
};

}  // namespace gpusnoop::probes
