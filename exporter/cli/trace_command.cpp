#include "exporter/cli/trace_command.h"

#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "bpf/lib/process.h"
#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/config/units.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/probes/functions/setting_names.h"
#include "exporter/probes/syscall/choice.h"

namespace gpusnoop::cli {

namespace {

void add_duration(CLI::App &command, const std::string &name, const std::string &what,
                  const std::function<void(std::chrono::milliseconds)> &set) {
    command
        .add_option_function<std::string>(
            name, [set](const std::string &text) { set(*config::parse_duration(text)); }, what)
        ->check([](const std::string &text) {
            return config::parse_duration(text) ? "" : "must be like 500ms, 10s or 5m";
        });
}

// What all traces have.
void add_trace_options(CLI::App &trace, trace::Options &options) {
    using trace::Format;
    trace.fallthrough();
    trace.add_option("--format", options.format, "text, or json: an object for each line.")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, Format>{{"text", Format::text}, {"json", Format::json}}));
    trace.add_option("--pid", options.pids, "Only this process; may be given several times.")
        ->take_all()
        ->expected(1, TRACED_PIDS);
    trace
        .add_option("--ppid", options.ppids,
                    "Only processes that this process started; may be given several times.")
        ->take_all()
        ->expected(1, TRACED_PIDS);
    trace.add_option("--comm", options.comm, "Only processes whose name matches this glob.");
    trace.add_option("--count", options.count, "Stop after so many calls.");
    add_duration(trace, "--duration", "Stop after so long: 500ms, 10s, 5m.",
                 [&options](auto duration) { options.duration = duration; });
}

void add_stack_option(CLI::App &trace, trace::Options &options) {
    trace.add_flag("--stack", options.stack, "With the functions that led to the call.");
}

}  // namespace

TraceCommand::TraceCommand(CLI::App &command) {
    CLI::App *traces = command.add_subcommand("trace", "Writes every call or event as a line.");
    traces->require_subcommand(1);
    traces->fallthrough();
    traces_ = traces;
    add_cuda(*traces);
    add_func(*traces);
    add_kernel_traces(*traces);
}

void TraceCommand::add_cuda(CLI::App &traces) {
    CLI::App *cuda = traces.add_subcommand("cuda", "CUDA calls, as docs/trace.md describes.");
    add_trace_options(*cuda, cuda_options_);
    add_stack_option(*cuda, cuda_options_);
    cuda->add_option("--function", cuda_options_.functions,
                     "Only functions that match this glob; may be given several times.")
        ->take_all();
    cuda_ = cuda;
}

void TraceCommand::add_func(CLI::App &traces) {
    CLI::App *func = traces.add_subcommand(
        "func", "Calls of the configuration's functions, or of any, as docs/trace.md describes.");
    add_trace_options(*func, functions_options_);
    add_stack_option(*func, functions_options_);
    func->add_option("--function", functions_options_.functions,
                     "Only functions with this symbol or name, or that match this glob; may be "
                     "given several times. With --library, functions that are not configured, too.")
        ->take_all()
        ->check([](const std::string &text) { return config::symbol_problem(text, false); });
    func->add_option("--library", functions_options_.libraries,
                     "Only functions of files with this name or path, or that match this glob; may "
                     "be given several times.")
        ->take_all()
        ->check([](const std::string &text) { return config::library_problem(text); });
    CLI::Option *const slow =
        func->add_flag("--slow", functions_options_.only_slow,
                       "Only calls that take as long as the slow_threshold of their function.");
    func->add_flag("--entries", functions_options_.entries,
                   "With a line when a call begins, too; both have the same id.")
        ->excludes(slow);
    add_duration(*func, "--min-duration", "Only calls that take as long: 100ms, 1s.",
                 [this](auto duration) { functions_options_.min_duration = duration; });
    func->get_option("--entries")->excludes(func->get_option("--min-duration"));
    functions_ = func;
}

void TraceCommand::add_kernel_traces(CLI::App &traces) {
    using trace::KernelEvents;
    constexpr std::tuple<KernelEvents, const char *, const char *> all[] = {
        {KernelEvents::pcie, "pcie", "Accesses to the configuration space of GPUs."},
        {KernelEvents::nvlink, "nvlink", "Calls of the NVIDIA driver's nvlink_* helpers."},
        {KernelEvents::fence, "fence", "What happens to DMA fences, and waits for them."},
        {KernelEvents::syscall, "syscall", "System calls, with their arguments and results."},
    };
    for (const auto &[events, name, what] : all) {
        CLI::App *command = traces.add_subcommand(name, what);
        add_trace_options(*command, kernel_options_);
        command->parse_complete_callback(
            [this, which = events] { kernel_options_.events = which; });
        if (events == KernelEvents::syscall) {
            command
                ->add_option("--syscall", kernel_options_.syscalls,
                             "Only this system call, or group of them; may be given several times.")
                ->take_all()
                ->check([](const std::string &text) { return config::syscall_problem(text); });
        }
    }
}

bool TraceCommand::parsed() const {
    return traces_->parsed();
}

// `stop_fd` is readable when the trace is to end.
Result<> TraceCommand::trace(const config::Config &config, int stop_fd) const {
    if (cuda_->parsed()) {
        return trace::trace_cuda(config, cuda_options_, stop_fd);
    }
    if (functions_->parsed()) {
        return trace::trace_func(config, functions_options_, stop_fd);
    }
    return trace::trace_kernel(config, kernel_options_, stop_fd);
}

int TraceCommand::run(const Settings &settings) const {
    const auto config = configure(settings);
    if (!config) {
        return complain(config.error());
    }
    log::setup(config->log.level, config->log.format);
    ebpf::route_libbpf_messages();
    const sigset_t stop_signals = block_signals({SIGINT, SIGTERM});
    const Fd stop(::signalfd(-1, &stop_signals, SFD_CLOEXEC));
    const auto traced = trace(*config, stop.get());
    if (!traced) {
        log::error(traced.error().message);
        return 1;
    }
    return 0;
}

}  // namespace gpusnoop::cli
