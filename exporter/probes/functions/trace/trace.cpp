#include "exporter/probes/functions/trace/trace.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/discovery/discovery.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/probes/frame/libraries/start_discovery.h"
#include "exporter/probes/functions/probe.h"
#include "exporter/probes/functions/report/slow_calls.h"
#include "exporter/probes/functions/setting_groups.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/trace/event.h"
#include "exporter/trace/lines.h"
#include "exporter/trace/stack_names.h"

namespace gpusnoop::trace {

namespace {

// As text_row(), safe for a terminal; the time is the call's end.
[[nodiscard]] std::string text_line(const probes::SlowCall &call,
                                    std::span<const StackFrame> stack);

// As probes::to_json(), safe for a terminal, in one line. With entries, each line has its kind.
[[nodiscard]] std::string json_line(const probes::SlowCall &call, bool with_entries = false);

std::string text_line(const probes::SlowCall &call, std::span<const StackFrame> stack) {
    const auto shown = [](const std::string &text) { return printable(text, max_text_bytes); };
    std::string result = call.result ? fmt::format("{:#x}", *call.result) : "-";
    if (call.error) {
        result = shown(*call.error);
    }
    std::string what =
        (call.is_entry ? "begins library=" : "library=") + shown(call.function->library);
    for (const auto &[position, value] : call.arguments) {
        what += fmt::format(" {}={:#x}", position, value);
    }
    what += text_of(printable(call));
    const auto duration = call.has_ended ? std::optional(call.duration_ns) : std::nullopt;
    return text_row({call.ended.count(), call.pid, call.tid, call.ppid, shown(call.comm),
                     shown(call.function->name), duration, result, what},
                    stack);
}

std::string json_line(const probes::SlowCall &call, bool with_entries) {
    // Only strings can contain control characters for a terminal, and there any character is
    // allowed.
    const std::string line = probes::to_json(call, call.is_entry  ? "entry"
                                                   : with_entries ? "call"
                                                                  : "");
    return printable(line, line.size()) + '\n';
}

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

// The number of stacks that are looked up together.
constexpr std::size_t max_batch = 1024;

constexpr Option function_option = {
    .name = "--function",
    .takes = Option::Takes::texts,
    .help =
        "Only functions with this symbol or name, or that match this glob. Repeatable. With "
        "--library, also functions that are not configured.",
    .problem = [](const std::string &text) { return probes::symbol_problem(text, false); }};
constexpr Option library_option = {
    .name = "--library",
    .takes = Option::Takes::texts,
    .help = "Only functions of files with this name or path, or that match this glob. Repeatable.",
    .problem = probes::library_problem};
constexpr Option slow_option = {
    .name = "--slow",
    .help = "Only calls that take at least the slow_threshold of their function."};
constexpr Option min_duration_option = {
    .name = "--min-duration",
    .takes = Option::Takes::duration,
    .help = "Only calls that take at least this long: 100ms, 1s."};
constexpr Option entries_option = {
    .name = "--entries",
    .help = "Also print a line when a call begins, with the same id.",
    .excludes = {slow_option.name, min_duration_option.name}};
constexpr Option function_options[] = {stack_option, function_option,     library_option,
                                       slow_option,  min_duration_option, entries_option};

class FunctionsTracer final : public Tracer {
public:
    explicit FunctionsTracer(const Setup &setup)
        : setup_(setup),
          has_stacks_(setup.options.has(stack_option)),
          has_entries_(setup.options.has(entries_option)),
          only_slow_(setup.options.has(slow_option)),
          min_duration_(setup.options.duration_of(min_duration_option).value_or(0ms)) {}

    Result<> start() override;
    [[nodiscard]] std::chrono::milliseconds interval() const override {
        return setup_.config.of<probes::FunctionsConfig>().drain_interval;
    }
    void drain(nanoseconds to_realtime) override;
    [[nodiscard]] std::uint64_t lost() const override;

private:
    void on_call(const probes::FunctionCall &call);
    void write_pending();

    const Setup setup_;
    const bool has_stacks_;
    const bool has_entries_;
    const bool only_slow_;
    const std::chrono::milliseconds min_duration_;
    std::unique_ptr<StackNames> stack_names_;
    std::unique_ptr<probes::Probe> probe_;
    std::unique_ptr<discovery::Discovery> discovery_;  // its thread uses the probe
    std::vector<probes::SlowCall> pending_;
    std::vector<StackNames::Stack> stacks_;  // of the pending calls; empty without --stack
    nanoseconds to_realtime_{};              // from the monotonic clock
};

Result<> FunctionsTracer::start() {
    auto stack_names = StackNames::start();
    if (!stack_names) {
        return tl::unexpected(stack_names.error());
    }
    stack_names_ = std::move(*stack_names);
    const Options &options = setup_.options;
    probe_ = probes::make_function_tracer(setup_.config, setup_.features,
                                          {.stacks = has_stacks_,
                                           .pids = options.pids,
                                           .libraries = options.texts(library_option),
                                           .functions = options.texts(function_option),
                                           .only_slow = only_slow_,
                                           .min_duration = min_duration_,
                                           .entries = has_entries_,
                                           .on_call = [this](const auto &call) { on_call(call); }});
    if (auto started = probe_->start(); !started) {
        return started;
    }
    auto discovery = probes::start_discovery(setup_.config, *probe_->attacher());
    if (!discovery) {
        return tl::unexpected(discovery.error());
    }
    discovery_ = std::move(*discovery);
    const auto health = probe_->health();
    log::info("tracing",
              {{"functions", health.attached_functions}, {"libraries", health.libraries.size()}});
    if (health.attached_functions == 0) {
        log::info("no process uses a library with such functions yet: waiting for one");
    }
    return {};
}

void FunctionsTracer::drain(nanoseconds to_realtime) {
    to_realtime_ = to_realtime;
    probe_->drain();
    write_pending();
    stack_names_->forget_old();
}

void FunctionsTracer::on_call(const probes::FunctionCall &call) {
    const nanoseconds ended(static_cast<std::int64_t>(call.record->head.ended_ns));
    // The programs already drop faster calls, except of functions with the highest numbers.
    const bool too_fast =
        nanoseconds(call.record->duration_ns) < min_duration_ || (only_slow_ && !call.is_slow);
    if (setup_.writer.done() || too_fast || !wants_comm(setup_.options, call.process->comm) ||
        !wants_ppid(setup_.options, call.process->ppid)) {
        return;
    }
    pending_.push_back(probes::describe(call, ended + to_realtime_));
    pending_.back().result = probes::whole_result(call);
    if (has_stacks_) {
        StackNames::Stack &stack = stacks_.emplace_back();
        stack.process = {call.process->key.tgid, call.process->key.since_ns};
        if (call.slow != nullptr) {
            stack.code_start = call.slow->code_start;
            stack.addresses = probes::stack_of(*call.slow);
        }
    }
    if (pending_.size() >= max_batch) {
        write_pending();
    }
}

void FunctionsTracer::write_pending() {
    auto named = stack_names_->name(stacks_);
    for (std::size_t n = 0; n < pending_.size(); n++) {
        probes::SlowCall &call = pending_[n];
        std::vector<StackFrame> frames;
        if (has_stacks_ && !stacks_[n].addresses.empty()) {
            const auto &addresses = stacks_[n].addresses;
            auto &of_call = named[n].frames;
            of_call.resize(std::min(of_call.size(), addresses.size()));
            for (std::size_t i = 0; i < addresses.size(); i++) {
                frames.push_back(
                    {addresses[i], i < of_call.size() ? of_call[i] : symbols::Frame{}});
            }
            call.stack = std::make_shared<const std::vector<symbols::Frame>>(std::move(of_call));
        }
        setup_.writer.write(setup_.options.format == Format::json ? json_line(call, has_entries_)
                                                                  : text_line(call, frames));
    }
    pending_.clear();
    stacks_.clear();
}

std::uint64_t FunctionsTracer::lost() const {
    const probes::Health health = probe_->health();
    return ebpf::lost_calls(health.account) +
           (health.lost_details ? health.lost_details->entries : 0);
}

}  // namespace

constinit const Kind functions_trace = {
    .alias = "func",
    .help = "Calls of configured functions, or of any functions: see docs/trace.md.",
    .options = function_options,
    .make = make<FunctionsTracer>};

}  // namespace gpusnoop::trace
