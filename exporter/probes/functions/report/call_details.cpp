#include "exporter/probes/functions/report/call_details.h"

#include <algorithm>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using sinks::Events;
using std::chrono::nanoseconds;

CallReporter::CallReporter(const config::Config &config, sinks::SinksPtr sinks)
    : config_(config.of<FunctionsConfig>().slow_calls),
      sinks_(std::move(sinks)),
      slow_calls_({.keep = config_.history,
                   .log_per_second = config_.log_per_second,
                   .on_complete =
                       [this](const SlowCall &call) {
                           if (sinks_->want(Events::slow)) {
                               sinks_->send(Events::slow, to_json(call, "slow_call"));
                           }
                       }},
                  [this](symbols::StackRequest request) { ask(std::move(request)); }) {}

void CallReporter::start() {
    if (wanted().slow_calls) {
        auto resolver = symbols::StackResolver::start();
        if (resolver) {
            resolver_ = std::move(*resolver);
        } else {
            log::warn("cannot name functions on the stacks of slow calls",
                      {{"probe", "functions"}, {"reason", resolver.error().message}});
        }
    }
}

FunctionPrograms::Details CallReporter::wanted() const {
    return {.slow_calls =
                config_.history > 0 || config_.log_per_second > 0 || sinks_->want(Events::slow),
            .all_arguments = sinks_->want(Events::all),
            .entries = sinks_->want_entries()};
}

OnFuncCall CallReporter::on_slow_call() {
    if (!wanted().slow_calls) {
        return {};
    }
    return [this](const FunctionCall &call) { slow_calls_.on_call(call, ended(call), now_); };
}

OnFuncCall CallReporter::on_call() {
    if (!sinks_->want(Events::all)) {
        return {};
    }
    return
        [this](const FunctionCall &call) { sinks_->send(Events::all, to_json(call, ended(call))); };
}

OnFuncCall CallReporter::on_entry() {
    if (!sinks_->want_entries()) {
        return {};
    }
    return [this](const FunctionCall &call) { sinks_->send_entry(to_json(call, ended(call))); };
}

void CallReporter::begin_round(nanoseconds now) {
    now_ = now;
    to_realtime_ = now_on(CLOCK_REALTIME) - now_on(CLOCK_MONOTONIC);
}

void CallReporter::end_round() {
    auto answers = resolver_ ? resolver_->answers() : std::exchange(unresolved_, {});
    slow_calls_.on_stacks(std::move(answers), now_);
    slow_calls_.tidy(now_);
}

ApiPage CallReporter::slow_calls() const {
    return slow_calls_page(slow_calls_.list());
}

void CallReporter::add_to(Overview &overview) const {
    auto all = slow_calls_.list();
    SlowCallsOverview &shown = overview.slow_calls.emplace();
    shown.kept = all.size();
    all.resize(std::min(all.size(), max_overview_slow_calls));
    for (SlowCall &call : all) {
        shown.last.push_back(
            {.ended = call.ended,
             .duration_ns = call.has_ended ? std::optional(call.duration_ns) : std::nullopt,
             .function = call.function->name,
             .library = call.function->library,
             .pid = call.pid,
             .names = call,
             .error = std::move(call.error),
             .stack = std::move(call.stack)});
    }
}

LostDetails CallReporter::lost_details(std::uint64_t ring_full) const {
    return {.slow = {{"ring_full", ring_full}, {"busy", slow_calls_.stacks_lost()}},
            .slow_not_logged = slow_calls_.not_logged()};
}

void CallReporter::ask(symbols::StackRequest request) {
    if (resolver_) {
        resolver_->ask(std::move(request));
    } else {
        unresolved_.push_back(
            symbols::StackNamer::unresolved(request.ticket, request.addresses.size()));
    }
}

nanoseconds CallReporter::ended(const FunctionCall &call) const {
    return to_realtime(nanoseconds(static_cast<std::int64_t>(call.record->head.ended_ns)));
}

}  // namespace gpusnoop::probes
