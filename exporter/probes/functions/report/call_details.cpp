#include "exporter/probes/functions/report/call_details.h"

#include <algorithm>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/functions/report/call_json.h"
#include "exporter/probes/functions/report/slow_calls_api.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using sinks::Events;
using std::chrono::nanoseconds;

CallReporter::CallReporter(const config::Config &config)
    : config_(config.of<FunctionsConfig>().slow_calls),
      sinks_config_(config.of<sinks::SinkConfigs>()),
      slow_calls_({.keep = config_.history,
                   .log_per_second = config_.log_per_second,
                   .on_complete =
                       [this](const SlowCall &call) {
                           if (has_sinks_for(Events::slow)) {
                               send(Events::slow, to_json(call, "slow_call"));
                           }
                       }},
                  [this](symbols::StackRequest request) { ask(std::move(request)); }) {}

Result<> CallReporter::start() {
    for (const sinks::SinkConfig &config : sinks_config_) {
        auto sink = sinks::Sink::start(
            {.name = config.name, .target = config.target, .queue_bytes = config.queue_bytes});
        if (!sink) {
            return fail_in("start the sink " + config.name, sink.error());
        }
        sinks_.push_back(std::move(*sink));
    }
    if (wanted().slow_calls) {
        auto resolver = symbols::StackResolver::start();
        if (resolver) {
            resolver_ = std::move(*resolver);
        } else {
            log::warn("cannot name functions on the stacks of slow calls",
                      {{"probe", "functions"}, {"reason", resolver.error().message}});
        }
    }
    return {};
}

FunctionPrograms::Details CallReporter::wanted() const {
    return {.slow_calls =
                config_.history > 0 || config_.log_per_second > 0 || has_sinks_for(Events::slow),
            .all_arguments = has_sinks_for(Events::all),
            .entries = has_sinks_for_entries()};
}

OnFuncCall CallReporter::on_slow_call() {
    if (!wanted().slow_calls) {
        return {};
    }
    return [this](const FunctionCall &call) { slow_calls_.on_call(call, ended(call), now_); };
}

OnFuncCall CallReporter::on_call() {
    if (!has_sinks_for(Events::all)) {
        return {};
    }
    return [this](const FunctionCall &call) { send(Events::all, to_json(call, ended(call))); };
}

OnFuncCall CallReporter::on_entry() {
    if (!has_sinks_for_entries()) {
        return {};
    }
    return [this](const FunctionCall &call) {
        const std::string line = to_json(call, ended(call));
        for (std::size_t i = 0; i < sinks_.size(); i++) {
            if (sinks_config_[i].entries) {
                sinks_[i]->offer(line);
            }
        }
    };
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

ApiResource CallReporter::slow_calls() const {
    return slow_calls_document(slow_calls_.list());
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

void CallReporter::add_to(Health &health, std::uint64_t ring_full,
                          std::uint64_t entries_lost) const {
    health.entries_lost = entries_lost;
    health.slow_details_lost = {{"ring_full", ring_full}, {"busy", slow_calls_.stacks_lost()}};
    health.slow_calls_not_logged = slow_calls_.not_logged();
    for (std::size_t i = 0; i < sinks_.size(); i++) {
        health.sinks.push_back(sinks_[i]->status());
        if (sinks_config_[i].entries) {
            health.sinks.back().lost["ring_full"] = entries_lost;
        }
    }
}

bool CallReporter::has_sinks_for(Events events) const {
    return std::ranges::any_of(sinks_config_,
                               [&](const auto &sink) { return sink.events == events; });
}

bool CallReporter::has_sinks_for_entries() const {
    return std::ranges::any_of(sinks_config_, &sinks::SinkConfig::entries);
}

void CallReporter::ask(symbols::StackRequest request) {
    if (resolver_) {
        resolver_->ask(std::move(request));
    } else {
        unresolved_.push_back(
            symbols::StackNamer::unresolved(request.ticket, request.addresses.size()));
    }
}

void CallReporter::send(Events events, const std::string &line) const {
    for (std::size_t i = 0; i < sinks_.size(); i++) {
        if (sinks_config_[i].events == events) {
            sinks_[i]->offer(line);
        }
    }
}

nanoseconds CallReporter::ended(const FunctionCall &call) const {
    return to_realtime(nanoseconds(static_cast<std::int64_t>(call.record->head.ended_ns)));
}

}  // namespace gpusnoop::probes
