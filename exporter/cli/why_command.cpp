#include "exporter/cli/why_command.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <string>

#include "exporter/cli/look_duration.h"
#include "exporter/cli/settings.h"
#include "exporter/cli/top_command.h"

namespace gpusnoop::cli {

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
