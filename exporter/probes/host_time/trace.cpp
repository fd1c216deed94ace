#include "exporter/probes/host_time/trace.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "exporter/config/units.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/host_time/calls.h"
#include "exporter/probes/host_time/probe.h"
#include "exporter/trace/lines.h"
#include "exporter/trace/stack_names.h"

namespace gpusnoop::trace {

namespace {

using namespace std::chrono_literals;

std::string problem_of(const std::string &text) {
    const auto parsed = config::parse_duration(text);
    return parsed && *parsed >= 1ms && *parsed <= 1h ? "" : "must be from 1ms to 1h";
}

constexpr Option gap_min_duration_option = {
    .name = "--min-duration",
    .takes = Option::Takes::duration,
    .help = "Only gaps of at least this length, 1ms to 1h (host.launch_gaps.min).",
    .problem = problem_of};
constexpr Option block_option = {
    .name = stack_option.name,
    .help = "Include the call stack at the place where the thread was blocked the longest."};
constexpr Option gap_options[] = {block_option, gap_min_duration_option};

class GapTracer final : public TargetTracer {
public:
    explicit GapTracer(const Setup &setup) : TargetTracer(setup) {}

    Result<> start() override {
        auto names = StackNames::start();
        if (!names) {
            return tl::unexpected(names.error());
        }
        stack_names_ = std::move(*names);
        return TargetTracer::start();
    }

private:
    [[nodiscard]] probes::Following following() const override {
        return {.enabled = true, .descendants = false};
    }
    [[nodiscard]] bool needs_cuda() const override { return true; }
    [[nodiscard]] config::Config settings() const override {
        config::Config config = setup().config;
        auto time = config.of<probes::HostTimeConfig>();
        time.enabled = true;
        time.keep_gaps = std::max(time.keep_gaps, 1U);
        time.gap_min = setup().options.duration_of(gap_min_duration_option).value_or(time.gap_min);
        config.set(time);
        return config;
    }
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        return probes::make_gap_tracer(
            settings(), traced,
            {.stacks = setup().options.has(block_option),
             .on_gap = [this](const probes::LongGap &gap, const auto &process) {
                 Event event = event_of(gap, process);
                 event.stack = frames_of(gap);
                 write(event);
             }});
    }

    std::vector<StackFrame> frames_of(const probes::LongGap &gap);

    std::unique_ptr<StackNames> stack_names_;
};

std::vector<StackFrame> GapTracer::frames_of(const probes::LongGap &gap) {
    if (gap.stack.empty()) {
        return {};
    }
    stack_names_->forget_old();
    const host_process &process = gap.record.process;
    const StackNames::Stack stack = {.process = {process.tgid, process.since_ns},
                                     .code_start = 0,
                                     .addresses = gap.stack,
                                     .begins_at_instruction = true};
    auto named = stack_names_->name({&stack, 1}).front().frames;
    named.resize(gap.stack.size());
    std::vector<StackFrame> frames;
    for (std::size_t i = 0; i < gap.stack.size(); i++) {
        frames.push_back({gap.stack[i], std::move(named[i])});
    }
    return frames;
}

Value longest_of(const host_gap_record &record) {
    const host_block &longest = record.longest;
    return longest.ns == 0 ? Value()
                           : Value(Durations{{probes::host_state_name(longest.state), longest.ns}});
}

}  // namespace

Event event_of(const probes::LongGap &gap, const probes::ProcessIdentity &process) {
    const host_gap_record &record = gap.record;
    Event event = make_event(gap.began.count(), record.process.tgid, record.tid, process, "after",
                             gap.after.empty() ? "unknown" : std::string(gap.after));
    event.duration_ns = record.ns;
    event.details = {
        {"before", text_or_null(std::string(gap.before))},
        {"gpu", text_or_null(gap.gpu)},
        {"drain", std::string(probes::host_drain_name(record.drain))},
        {"thread", printable(probes::thread_name_of(record), max_text_bytes)},
        {"states", probes::states_of(record)},
        {"longest", longest_of(record)},
        {"longest_call", text_or_null(std::string(probes::longest_call_of(record)))},
        {"longest_filesystem", text_or_null(std::string(probes::longest_filesystem_of(record)))}};
    return event;
}

constinit const Kind gap_trace = {
    .name = "gap",
    .help =
        "Launch gaps: times in which a process gives its GPU no work, and what its threads did.",
    .column = "ENDED BY",
    .options = gap_options,
    .make = make<GapTracer>};

}  // namespace gpusnoop::trace
