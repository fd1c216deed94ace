#include "exporter/cli/commands.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>

#include "bpf/lib/processes/process.h"
#include "exporter/cli/choice.h"
#include "exporter/cli/doctor/doctor.h"
#include "exporter/config/units.h"
#include "exporter/ebpf/libbpf.h"

namespace gpusnoop::cli {

const CLI::App *add_doctor(CLI::App &command, DoctorFormat &format) {
    CLI::App *doctor = command.add_subcommand(
        "doctor",
        "Checks which features work on this node, and the effect of each missing one. Exit "
        "status: 0 if everything works, 1 if the exporter runs but something is missing, 2 if it "
        "cannot work.");
    doctor->fallthrough();
    add_choice<DoctorFormat>(
        doctor->add_option("--format", format, "Output format: text, or json (one object)."),
        {{"text", DoctorFormat::text}, {"json", DoctorFormat::json}});
    return doctor;
}

int examine(const Settings &settings, DoctorFormat format) {
    ebpf::route_libbpf_messages();
    const auto findings = doctor::examine(configure(settings), settings.config_file.empty()
                                                                   ? "the built-in configuration"
                                                                   : settings.config_file);
    const std::string text =
        format == DoctorFormat::json ? doctor::to_json(findings) : doctor::to_text(findings);
    std::fputs(text.c_str(), stdout);
    return doctor::exit_code(doctor::overall(findings));
}

const CLI::App *add_profile(CLI::App &command, probes::ProfileOptions &options) {
    CLI::App *profile = command.add_subcommand(
        "profile", "Profiles the stacks of GPU processes and the processes they start.");
    profile->fallthrough();
    add_choice(
        profile->add_option(
            "--type", options.settings.type,
            "cpu (what runs), offcpu (what waits), page_faults (what touches new memory), or heap "
            "(host memory, not the GPU's: what one process allocates by malloc and does not "
            "free)."),
        probes::profile_types());
    profile
        ->add_option("--pid", options.settings.filter.pids,
                     "Only this process and the processes it starts. Repeatable.")
        ->take_all()
        ->expected(1, TRACED_PIDS);
    profile->add_option("--comm", options.settings.filter.comm,
                        "Only processes whose name matches this glob, and the processes they "
                        "start.");
    profile
        ->add_option("--frequency", options.settings.frequency,
                     "For cpu: samples per second on each CPU, 1 to 999 (49).")
        ->check(CLI::Range(1U, 999U).description(""));
    profile
        ->add_option_function<std::string>(
            "--min-bytes",
            [&options](const std::string &text) {
                options.settings.min_bytes = config::parse_size(text).value_or(0);
            },
            "For heap: ignore smaller allocations (64KiB).")
        ->check([](const std::string &text) {
            return config::parse_size(text) ? "" : "must be like 1, 64KiB or 1MiB";
        });
    add_look_duration(*profile, options.duration);
    add_choice(profile->add_option("--format", options.format,
                                   "folded (for flamegraph.pl), json, pprof (compressed), or svg "
                                   "(a flame graph)."),
               probes::profile_formats());
    profile->add_option("--output", options.output,
                        "Write to this file instead of standard output.");
    profile->final_callback([profile, &options] {
        const bool is_heap = options.settings.type == probes::ProfileType::heap;
        if (is_heap && options.settings.filter.pids.size() != 1) {
            throw CLI::ValidationError(
                "--type=heap", "needs exactly one --pid: it attaches to that process's malloc");
        }
        if (!is_heap && profile->count("--min-bytes") > 0) {
            throw CLI::ValidationError("--min-bytes", "is for --type=heap alone");
        }
    });
    return profile;
}

int profile(const Settings &settings, const probes::ProfileOptions &options) {
    return run_until_stopped(settings, [&](const config::Config &config, int stop_fd) {
        return probes::run_profile(config, options, stop_fd);
    });
}

namespace {

void add_access(CLI::App &top, top::Access &access) {
    auto *login = top.add_option("--login-file", access.login_file,
                                 "File with USER:PASSWORD in its first line.");
    top.add_flag("--netrc", access.netrc, "Use the login for this host from ~/.netrc.")
        ->excludes(login);
    top.add_option("--ca-file", access.ca_file,
                   "CA certificates to trust, in PEM (default: those of the system).");
    auto *certificate =
        top.add_option("--cert-file", access.cert_file, "Client certificate, in PEM.");
    top.add_option("--key-file", access.key_file,
                   "Key of the client certificate, if it is in a separate file.")
        ->needs(certificate);
    top.add_flag("--insecure-skip-verify", access.skip_verify,
                 "Accept any certificate. An attacker may then read the login.");
}

}  // namespace

void add_exporter(CLI::App &command, top::Address &address, top::Access &access) {
    command
        .add_option_function<std::string>(
            "--address",
            [&address](const std::string &text) { address = *top::parse_address(text); },
            "Address of the exporter, as http://HOST:PORT, https://HOST:PORT or unix:/PATH "
            "(http://127.0.0.1:19435).")
        ->check([](const std::string &text) {
            const auto parsed = top::parse_address(text);
            return parsed ? "" : parsed.error().message;
        });
    add_access(command, access);
}

const CLI::App *add_top(CLI::App &command, top::Options &options) {
    using top::By;
    using top::Sort;
    CLI::App *top =
        command.add_subcommand("top",
                               "Shows live what GPU programs and traced functions do, from a "
                               "running exporter. Keys: p and f switch, ? is help, q quits.");
    add_exporter(*top, options.address, options.access);
    top->add_option_function<std::string>(
           "--interval",
           [&options](const std::string &text) {
               options.interval = *config::parse_duration(text);
           },
           "Refresh interval, 100ms to 1h (2s).")
        ->check([](const std::string &text) {
            using namespace std::chrono_literals;
            const auto parsed = config::parse_duration(text);
            return parsed && *parsed >= 100ms && *parsed <= 1h ? "" : "must be from 100ms to 1h";
        });
    top->add_option("--telemetry-path", options.telemetry_path,
                    "Path of the exporter's metrics (/metrics).")
        ->check([](const std::string &path) {
            return std::string(path.starts_with('/') ? "" : "must begin with /");
        });
    add_choice<Sort>(
        top->add_option(
            "--sort", options.sort,
            "Sort by errors per second, of programs or functions; for functions also by calls, "
            "seconds (inside them) or slow, all per second, or max."),
        {{"calls", Sort::calls},
         {"seconds", Sort::seconds},
         {"slow", Sort::slow},
         {"errors", Sort::errors},
         {"max", Sort::max}});
    add_choice<By>(
        top->add_option(
            "--by", options.by,
            "One row per program (default, also with --sort=errors), function (default with any "
            "other --sort), or process (each function in each running process)."),
        {{"program", By::program}, {"function", By::function}, {"process", By::process}});
    top->add_option("--rows", options.rows,
                    "Maximum number of rows (as many as fit, otherwise 20).")
        ->check(CLI::Range(1, 100'000).description(""));
    top->add_flag("--once", options.once, "Print one plain table, for one interval, and exit.");
    top->add_flag("--batch", options.batch, "Print plain tables, one after another.");
    return top;
}

int show_top(const top::Options &options) {
    block_signals({SIGINT, SIGTERM});
    const auto shown = top::run(options);
    return shown ? 0 : complain(shown.error());
}

const CLI::App *add_why(CLI::App &command, why::Options &options) {
    CLI::App *why = command.add_subcommand(
        "why",
        "Explains what limits each program that launches GPU work, and where its launching "
        "threads spent their time, from a running exporter.");
    add_exporter(*why, options.address, options.access);
    auto *pid = why->add_option("--pid", options.pid, "Only this process.")
                    ->check(CLI::Range(1U, std::numeric_limits<std::uint32_t>::max()));
    why->add_option("--comm", options.comm, "Only programs whose name or script matches this glob.")
        ->excludes(pid);
    add_look_duration(*why, options.duration);
    why->add_flag(
        "--oom", options.oom,
        "Instead, explain the last times that programs ran out of GPU memory: who held it.");
    why->add_option_function<std::string>(
           "--format", [&options](const std::string &format) { options.json = format == "json"; },
           "Output format: text, or json (one object).")
        ->check(CLI::IsMember({"text", "json"}));
    return why;
}

int explain(const why::Options &options) {
    const auto explained = why::run(options);
    return explained ? 0 : complain(explained.error());
}

}  // namespace gpusnoop::cli
