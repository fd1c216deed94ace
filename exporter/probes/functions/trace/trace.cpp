// `trace func`: the functions probe, which reports each call instead of counting it.
#include <time.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/discovery/discovery.h"
#include "exporter/ebpf/counters.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/handover.h"
#include "exporter/probes/frame/exclusion.h"
#include "exporter/probes/functions/probe.h"
#include "exporter/probes/functions/report/slow_calls.h"
#include "exporter/probes/functions/trace/lines.h"
#include "exporter/system/machine.h"
#include "exporter/trace/filter.h"
#include "exporter/trace/lines.h"
#include "exporter/trace/stack_names.h"
#include "exporter/trace/trace.h"
#include "exporter/trace/writer.h"

namespace gpusnoop::trace {

namespace {

using std::chrono::nanoseconds;

// Stacks that are looked up together.
constexpr std::size_t max_batch = 1024;

class FunctionTracer {
public:
    FunctionTracer(const FunctionTraceOptions &options, int stop_fd)
        : options_(options), writer_(options, stop_fd) {}

    Result<> open(const config::Config &config);
    Result<> run(std::chrono::milliseconds interval);

private:
    void drain();
    void on_call(const probes::FunctionCall &call);
    void write_pending();
    [[nodiscard]] std::uint64_t lost() const;

    const FunctionTraceOptions &options_;
    Writer writer_;
    std::unique_ptr<StackNames> stack_names_;
    std::unique_ptr<probes::Probe> probe_;
    std::unique_ptr<discovery::Discovery> discovery_;  // its thread uses the probe
    std::vector<probes::SlowCall> pending_;
    std::vector<StackNames::Stack> stacks_;  // of the pending calls; empty without --stack
    nanoseconds to_realtime_{};              // from the monotonic clock
};

Result<> FunctionTracer::open(const config::Config &config) {
    allow_many_files();
    const auto features = ebpf::probe_features();
    if (const auto usable = ebpf::check_requirements(features); !usable) {
        return usable;
    }
    auto stack_names = StackNames::start();
    if (!stack_names) {
        return tl::unexpected(stack_names.error());
    }
    stack_names_ = std::move(*stack_names);
    probe_ = probes::make_func_tracer(config, features,
                                      {.stacks = options_.stack,
                                       .pids = options_.pids,
                                       .libraries = options_.libraries,
                                       .functions = options_.functions,
                                       .only_slow = options_.only_slow,
                                       .min_duration = options_.min_duration,
                                       .entries = options_.entries,
                                       .on_call = [this](const auto &call) { on_call(call); }});
    if (auto started = probe_->start(); !started) {
        return started;
    }
    auto discovery =
        discovery::Discovery::open({.rescan_interval = config.discovery.rescan_interval,
                                    .exclude = probes::exclusion(config.discovery.exclude)},
                                   {probe_->attacher()});
    if (!discovery) {
        return tl::unexpected(discovery.error());
    }
    discovery_ = std::move(*discovery);
    discovery_->start();
    const auto health = probe_->health();
    log::info("tracing",
              {{"functions", health.attached_functions}, {"libraries", health.libraries.size()}});
    if (health.attached_functions == 0) {
        log::info("no process uses a library with such functions yet: waiting for one");
    }
    return {};
}

Result<> FunctionTracer::run(std::chrono::milliseconds interval) {
    return writer_.run({interval, text_header(), [this] { drain(); }, [this] { return lost(); }});
}

void FunctionTracer::drain() {
    to_realtime_ = now_on(CLOCK_REALTIME) - now_on(CLOCK_MONOTONIC);
    probe_->drain();
    write_pending();
    stack_names_->forget_old();
}

void FunctionTracer::on_call(const probes::FunctionCall &call) {
    const nanoseconds ended(static_cast<std::int64_t>(call.record->head.ended_ns));
    // The programs leave out what is too fast, but of functions with the highest numbers.
    const bool too_fast = nanoseconds(call.record->duration_ns) < options_.min_duration ||
                          (options_.only_slow && !call.is_slow);
    if (writer_.done() || too_fast || !wants_comm(options_, call.process->comm) ||
        !wants_ppid(options_, call.process->ppid)) {
        return;
    }
    pending_.push_back(probes::describe(call, ended + to_realtime_));
    pending_.back().result = probes::whole_result(call);
    if (options_.stack) {
        StackNames::Stack &stack = stacks_.emplace_back();
        stack.process = call.process->key;
        if (call.slow != nullptr) {
            stack.code_start = call.slow->code_start;
            stack.addresses = probes::stack_of(*call.slow);
        }
    }
    if (pending_.size() >= max_batch) {
        write_pending();
    }
}

void FunctionTracer::write_pending() {
    auto named = stack_names_->name(stacks_);
    for (std::size_t n = 0; n < pending_.size(); n++) {
        probes::SlowCall &call = pending_[n];
        std::vector<StackFrame> frames;
        if (options_.stack && !stacks_[n].addresses.empty()) {
            const auto &addresses = stacks_[n].addresses;
            named[n].resize(std::min(named[n].size(), addresses.size()));
            for (std::size_t i = 0; i < addresses.size(); i++) {
                frames.push_back(
                    {addresses[i], i < named[n].size() ? named[n][i] : symbols::Frame{}});
            }
            call.stack = std::make_shared<const std::vector<symbols::Frame>>(std::move(named[n]));
        }
        writer_.write(options_.format == Format::json ? json_line(call, options_.entries)
                                                      : text_line(call, frames));
    }
    pending_.clear();
    stacks_.clear();
}

std::uint64_t FunctionTracer::lost() const {
    const probes::Health health = probe_->health();
    return ebpf::lost_calls(health.account) + health.entries_lost;
}

}  // namespace

Result<> trace_func(const config::Config &config, const FunctionTraceOptions &options,
                    int stop_fd) {
    std::optional<ebpf::Handover> handover;
    FunctionTracer tracer(options, stop_fd);
    auto traced = tracer.open(config);
    if (traced) {
        traced = tracer.run(config.functions.drain_interval);
    }
    handover.emplace();
    return traced;
}

}  // namespace gpusnoop::trace
