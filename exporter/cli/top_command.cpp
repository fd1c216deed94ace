#include "exporter/cli/top_command.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "exporter/cli/choice.h"
#include "exporter/cli/settings.h"
#include "exporter/config/units.h"

namespace gpusnoop::cli {

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

}  // namespace gpusnoop::cli
