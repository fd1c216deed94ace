#include "exporter/cli/trace_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/lib/processes/process.h"
#include "exporter/cli/choice.h"
#include "exporter/cli/commands.h"
#include "exporter/config/units.h"
#include "exporter/probes/frame/registry.h"

namespace gpusnoop::cli {

namespace {

CLI::Option *add_duration(CLI::App &command, const std::string &name, const std::string &what,
                          const std::function<void(const std::string &)> &set) {
    return command.add_option_function<std::string>(name, set, what)
        ->check([](const std::string &text) {
            return config::parse_duration(text) ? "" : "must be like 500ms, 10s or 5m";
        });
}

// The options of all traces.
void add_trace_options(CLI::App &trace, trace::Options &options) {
    using trace::Format;
    trace.fallthrough();
    add_choice<Format>(trace.add_option("--format", options.format,
                                        "Output format: text, or json (one object per line)."),
                       {{"text", Format::text}, {"json", Format::json}});
    trace.add_option("--pid", options.pids, "Only this process. Repeatable.")
        ->take_all()
        ->expected(1, TRACED_PIDS);
    trace.add_option("--ppid", options.ppids, "Only children of this process. Repeatable.")
        ->take_all()
        ->expected(1, TRACED_PIDS);
    trace.add_option("--comm", options.comm, "Only processes whose name matches this glob.");
    trace.add_option("--count", options.count, "Stop after this many calls.");
    add_duration(trace, "--duration", "Stop after this time: 500ms, 10s, 5m.",
                 [&options](const auto &text) { options.duration = config::parse_duration(text); });
}

// An option that only some traces have.
void add_option(CLI::App &trace, const trace::Option &option, trace::Options &options) {
    using Takes = trace::Option::Takes;
    using Texts = std::vector<std::string>;
    const std::string name(option.name);
    const std::string help(option.help);
    const auto give = [&given = options.given, key = option.name](const Texts &texts) {
        given.insert_or_assign(key, texts);
    };
    CLI::Option *added = nullptr;
    switch (option.takes) {
        case Takes::nothing:
            added = trace.add_flag_callback(name, [give] { give({}); }, help);
            break;
        case Takes::duration:
            added = add_duration(trace, name, help, [give](const auto &text) { give({text}); });
            break;
        case Takes::texts:
            added = trace.add_option_function<Texts>(name, give, help)->take_all();
            break;
    }
    if (option.problem != nullptr) {
        added->check(option.problem);
    }
    for (const std::string_view other : option.excludes) {
        if (!other.empty()) {
            added->excludes(trace.get_option(std::string(other)));
        }
    }
}

}  // namespace

TraceCommand::TraceCommand(CLI::App &command) {
    CLI::App *traces = command.add_subcommand("trace", "Prints a line for every call or event.");
    traces->require_subcommand(0, 1);
    traces->fallthrough();
    traces_ = traces;
    add_in_flight(*traces);
    for (const probes::ProbeKind *const probe : probes::all_probes()) {
        if (probe->trace != nullptr) {
            add(*traces, std::string(probe->name), *probe->trace);
        }
        for (const trace::Kind *const kind : probe->named_traces) {
            add(*traces, std::string(kind->name), *kind);
        }
    }
}

void TraceCommand::add(CLI::App &traces, const std::string &name, const trace::Kind &kind) {
    CLI::App *trace = traces.add_subcommand(name, std::string(kind.help));
    if (!kind.alias.empty()) {
        trace->alias(std::string(kind.alias));
    }
    trace::Options &options = choices_.emplace_back(Choice{kind, trace, {}}).options;
    add_trace_options(*trace, options);
    for (const trace::Option &option : kind.options) {
        add_option(*trace, option, options);
    }
}

void TraceCommand::add_in_flight(CLI::App &traces) {
    CLI::Option *const in_flight = traces.add_flag(
        "--in-flight", is_in_flight_, "Prints the calls in flight of a running exporter, once.");
    traces
        .add_option_function<std::string>(
            "--format", [this](const std::string &format) { in_flight_.json = format == "json"; },
            "With --in-flight: output format, text or json (one object per line).")
        ->check(CLI::IsMember({"text", "json"}));
    add_exporter(traces, in_flight_.address, in_flight_.access);
    for (CLI::Option *const option : traces.get_options()) {
        if (option != in_flight && option != traces.get_help_ptr()) {
            option->needs(in_flight);
        }
    }
    traces.callback([this, &traces] {
        const bool has_probe = !traces.get_subcommands().empty();
        if (has_probe == is_in_flight_) {
            throw has_probe
                ? CLI::ParseError("--in-flight traces no probe", CLI::ExitCodes::ExcludesError)
                : CLI::ParseError("A probe, or --in-flight, is required",
                                  CLI::ExitCodes::RequiredError);
        }
    });
}

bool TraceCommand::parsed() const {
    return traces_->parsed();
}

int TraceCommand::run(const Settings &settings) const {
    if (is_in_flight_) {
        const auto printed = top::print_in_flight(in_flight_);
        return printed ? 0 : complain(printed.error());
    }
    const auto chosen = std::ranges::find_if(
        choices_, [](const Choice &choice) { return choice.command->parsed(); });
    return run_until_stopped(settings, [&](const config::Config &config, int stop_fd) {
        return trace::run(chosen->kind, config, chosen->options, stop_fd);
    });
}

}  // namespace gpusnoop::cli
