#include "exporter/probes/syscall/trace.h"

#include <utility>
#include <vector>

#include "exporter/probes/frame/trace/target_tracer.h"
#include "exporter/probes/syscall/choice.h"
#include "exporter/probes/syscall/probe.h"
#include "exporter/probes/syscall/settings.h"
#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::trace {

namespace {

// The highest errno that the kernel returns, negated: MAX_ERRNO.
constexpr std::int64_t max_errno = 4095;

constexpr Option syscall_option = {
    .name = "--syscall",
    .takes = Option::Takes::texts,
    .help = "Only this system call, or group of system calls. Repeatable.",
    .problem = probes::syscall_problem};
constexpr Option call_options[] = {syscall_option};

class SyscallTracer final : public TargetTracer {
public:
    explicit SyscallTracer(const Setup &setup) : TargetTracer(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        config::Config config = setup().config;
        if (auto syscalls = setup().options.texts(syscall_option); !syscalls.empty()) {
            auto chosen = config.of<probes::SyscallConfig>();
            chosen.syscalls = std::move(syscalls);
            config.set(std::move(chosen));
        }
        return probes::make_syscall_tracer(
            config, traced, {.on_call = [this](const auto &record, auto, const auto &process) {
                write(event_of(record, process, clock_offset_ns()));
            }});
    }
};

}  // namespace

Event event_of(const syscall_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began_ns(record.head.at_ns, record.nanoseconds, clock_offset_ns);
    event.duration_ns = record.nanoseconds;
    event.pid = record.head.tgid;
    event.tid = record.tid;
    set_process(event, process);
    event.kind = "syscall";
    event.name = probes::syscall_label(record.number);
    if (record.number == SYSCALL_COMPAT || record.number == SYSCALL_UNKNOWN) {
        event.details.emplace_back("number", std::int64_t{record.made_with});
    }
    // It restores the registers that a signal handler interrupted, and has no result itself.
    if (record.number == syscall_number("rt_sigreturn")) {
        event.results = {{"result", Value()}, {"error", Value()}};
        return event;
    }
    const bool failed = record.result < 0 && record.result >= -max_errno;
    set_result(event, record.result,
               failed ? std::string(errno_name(static_cast<std::uint32_t>(-record.result))) : "");
    std::vector<Word> arguments;
    for (const std::uint64_t argument : record.arguments) {
        arguments.push_back({argument});
    }
    event.details.emplace_back("arguments", std::move(arguments));
    return event;
}

constinit const Kind syscall_trace = {.help = "System calls, with their arguments and results.",
                                      .column = "SYSCALL",
                                      .options = call_options,
                                      .make = make<SyscallTracer>};

}  // namespace gpusnoop::trace
