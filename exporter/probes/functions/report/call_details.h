// Reports single calls: the list of slow calls, the log, the sinks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/functions/attach/programs.h"
#include "exporter/probes/functions/report/slow_calls.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/sinks/sinks.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

// For the aggregating thread, except its Health.
class CallReporter {
public:
    CallReporter(const config::Config &config, sinks::SinksPtr sinks);
    CallReporter(const CallReporter &) = delete;
    CallReporter &operator=(const CallReporter &) = delete;

    // Starts the thread that looks stacks up.
    void start();

    [[nodiscard]] FunctionPrograms::Details wanted() const;

    // Callbacks for the aggregator; empty if they are not needed. Call them between begin_round()
    // and end_round().
    [[nodiscard]] OnFuncCall on_slow_call();
    [[nodiscard]] OnFuncCall on_call();
    [[nodiscard]] OnFuncCall on_entry();

    // From the kernel's monotonic clock to CLOCK_REALTIME, by their difference in this round.
    [[nodiscard]] std::chrono::nanoseconds to_realtime(std::chrono::nanoseconds at) const {
        return at + to_realtime_;
    }

    // `now` is the time of the kernel's monotonic clock.
    void begin_round(std::chrono::nanoseconds now);
    void end_round();

    [[nodiscard]] ApiPage slow_calls() const;
    void add_to(Overview &overview) const;
    // Of slow calls, for any thread. `ring_full`: those whose record had no room.
    [[nodiscard]] LostDetails lost_details(std::uint64_t ring_full) const;

private:
    void ask(symbols::StackRequest request);
    [[nodiscard]] std::chrono::nanoseconds ended(const FunctionCall &call) const;

    FunctionsConfig::SlowCalls config_;
    sinks::SinksPtr sinks_;
    std::unique_ptr<symbols::StackResolver> resolver_;  // null: stacks are without names
    std::vector<symbols::StackReply> unresolved_;
    SlowCallHistory slow_calls_;
    std::chrono::nanoseconds now_{};
    std::chrono::nanoseconds to_realtime_{};  // from the monotonic clock
};

}  // namespace gpusnoop::probes
