#include "exporter/probes/host_life/trace.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <ratio>
#include <utility>

#include "bpf/lib/processes/followed.h"
#include "exporter/base/log.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/host_life/dying_calls.h"
#include "exporter/probes/host_life/exits.h"
#include "exporter/probes/host_life/probe.h"
#include "exporter/probes/host_life/reports/report.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

using std::chrono::steady_clock;

// Threads that are killed at once pass their end in any order, and the one with the last CUDA call
// can be later than the one that ends the process. A line waits so long for it.
constexpr std::chrono::milliseconds late_calls_for{200};
// What a GPU process has used is known a second or so after its end.
constexpr std::chrono::milliseconds reports_for{3'000};

class ExitTracer final : public HostTracer {
public:
    explicit ExitTracer(const Setup &setup) : HostTracer(setup) { report_facts_->want(); }

    void drain(std::chrono::nanoseconds to_realtime) override {
        HostTracer::drain(to_realtime);
        if (dying_) {
            dying_->drain();
        }
        const auto now = steady_clock::now();
        while (!ends_.empty() && is_whole(ends_.front(), now)) {
            write_first();
        }
    }
    void finish() override {
        while (!ends_.empty()) {
            write_first();
        }
    }

private:
    struct End {
        steady_clock::time_point came;
        life_exit_record record;
        probes::ProcessIdentity process;
        std::string report;  // empty: not known
    };

    [[nodiscard]] probes::ReportFactsPtr report_facts() const override { return report_facts_; }

    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        function_name_ = traced->cuda().function_name;
        if (const probes::CallMaps &calls = traced->cuda().calls; calls.threads) {
            follow_dying(calls);
        }
        return probes::make_life_tracer(
            setup().config, traced,
            {.exit =
                 [this](const auto &record, const auto &process) {
                     ends_.push_back({steady_clock::now(), record, process, {}});
                 },
             .late_call =
                 [this](const auto &late) {
                     for (End &end : ends_) {
                         (void)probes::add_late_call(end.record, late);
                     }
                 },
             .signal = {},
             .report = [this](const auto &report) { on_report(report); },
             .running =
                 [this](const auto &process) {
                     if (dying_) {
                         dying_->look_at(process);
                     }
                 }},
            report_facts_);
    }

    void follow_dying(const probes::CallMaps &calls) {
        if (auto dying = probes::DyingCalls::start(calls)) {
            dying_ = std::move(*dying);
        } else {
            log::warn("last calls have no lines of Python", {{"reason", dying.error().message}});
        }
    }

    [[nodiscard]] bool is_whole(const End &end, steady_clock::time_point now) const {
        const bool has_report = function_name_ != nullptr &&
                                (end.record.reasons & FOLLOWED_CUDA) != 0 && end.report.empty();
        return now - end.came >= (has_report ? reports_for : late_calls_for);
    }

    // A process with that id may have ended before, as another program.
    void on_report(const probes::JobReport &report) {
        for (End &end : ends_) {
            const std::int64_t apart_ns =
                report.ended.count() - began_ns(end.record.head.at_ns, 0, clock_offset_ns());
            if (report.pid == end.record.head.tgid && end.report.empty() &&
                !report.causes.contains(std::string(probes::cause_exec)) &&
                std::abs(apart_ns) < std::nano::den) {
                end.report = probes::sentence_of(report);
                return;
            }
        }
    }

    void write_first() {
        const End &end = ends_.front();
        write(event_of(end.record, end.process, clock_offset_ns(), function_name_, end.report,
                       dying_ ? dying_->line_of(end.record) : ""));
        if (dying_) {
            dying_->forget(end.record.head.tgid);
        }
        ends_.pop_front();
    }

    const probes::ReportFactsPtr report_facts_ = std::make_shared<probes::ReportFacts>();
    probes::CudaFunctionName function_name_ = nullptr;
    std::deque<End> ends_;                       // the newest last
    std::unique_ptr<probes::DyingCalls> dying_;  // null: nobody sees where calls end
};

class SignalTracer final : public HostTracer {
public:
    explicit SignalTracer(const Setup &setup) : HostTracer(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        return probes::make_life_tracer(
            setup().config, traced,
            {.exit = {},
             .late_call = {},
             .signal =
                 [this](const auto &record, const auto &process) {
                     write(event_of(record, process, clock_offset_ns()));
                 },
             .report = {},
             .running = {}},
            std::make_shared<probes::ReportFacts>());
    }
};

void add_origin(Event &event, const life_origin *origin) {
    Value sender;
    Value pid;
    Value comm;
    if (origin != nullptr) {
        sender = std::string(probes::sender_name(origin->sender));
        if (origin->sender == LIFE_PROCESS) {
            pid = std::uint64_t{origin->tgid};
            comm = printable({origin->comm, ::strnlen(origin->comm, sizeof(origin->comm))},
                             max_text_bytes);
        }
    }
    event.details.emplace_back("sender", std::move(sender));
    event.details.emplace_back("sender_pid", std::move(pid));
    event.details.emplace_back("sender_comm", std::move(comm));
}

void add_last_call(Event &event, const std::optional<probes::LastCall> &call,
                   const std::string &site) {
    Value function;
    Value age;
    Value in_flight;
    if (call) {
        function = std::string(call->function);
        age = static_cast<std::uint64_t>(call->age.count());
        in_flight = std::string(call->is_in_flight ? "true" : "false");
    }
    event.details.emplace_back("last_cuda_call", std::move(function));
    event.details.emplace_back("last_cuda_call_age_ns", std::move(age));
    event.details.emplace_back("last_cuda_call_in_flight", std::move(in_flight));
    event.details.emplace_back("last_cuda_call_site", text_or_null(site));
}

}  // namespace

Event event_of(const life_exit_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns, probes::CudaFunctionName function_name,
               const std::string &report, const std::string &site) {
    Event event = make_event(began_ns(record.head.at_ns, 0, clock_offset_ns), record.head.tgid, 0,
                             process, "cause", probes::cause_of(record));
    const probes::ExitStatus status = probes::exit_status_of(record);
    event.details = {{"role", std::string(probes::role_name(record.reasons))},
                     {"code", status.code ? Value(std::uint64_t{*status.code}) : Value()},
                     {"signal", text_or_null(status.signal)}};
    add_origin(event, record.has_origin != 0 ? &record.origin : nullptr);
    event.details.emplace_back("lifetime_ns", std::uint64_t{record.lifetime_ns});
    add_last_call(event, probes::last_call_of(record, function_name), site);
    event.details.emplace_back("report", text_or_null(report));
    return event;
}

Event event_of(const life_signal_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event = make_event(began_ns(record.head.at_ns, 0, clock_offset_ns), record.head.tgid, 0,
                             process, "signal", probes::signal_name(record.signal));
    event.details = {{"role", std::string(probes::role_name(record.reasons))}};
    add_origin(event, &record.origin);
    return event;
}

constinit const Kind exit_trace = {.name = "exit",
                                   .help = "Ends of GPU processes and of the processes they start.",
                                   .column = "CAUSE",
                                   .make = make<ExitTracer>};
constinit const Kind signal_trace = {.name = "signal",
                                     .help =
                                         "Signals to GPU processes and to the processes they "
                                         "start.",
                                     .column = "SIGNAL",
                                     .make = make<SignalTracer>};

}  // namespace gpusnoop::trace
