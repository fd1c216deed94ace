#include "exporter/cli/why_command.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <limits>
#include <string>

#include "exporter/cli/settings.h"
#include "exporter/cli/top_command.h"
#include "exporter/config/units.h"

namespace gpusnoop::cli {

const CLI::App *add_why(CLI::App &command, why::Options &options) {
    CLI::App *why = command.add_subcommand(
        "why",
        "Is it the host that keeps the GPU waiting? Where the time of the threads that launch "
        "work went, from a running exporter.");
    add_exporter(*why, options.address, options.access);
    auto *pid = why->add_option("--pid", options.pid, "Only this process.")
                    ->check(CLI::Range(1U, std::numeric_limits<std::uint32_t>::max()));
    why->add_option("--comm", options.comm, "Only processes whose name matches this glob.")
        ->excludes(pid);
    why->add_option_function<std::string>(
           "--duration",
           [&options](const std::string &text) {
               options.duration = *config::parse_duration(text);
           },
           "How long it looks, 100ms to 1h (10s).")
        ->check([](const std::string &text) {
            using namespace std::chrono_literals;
            const auto parsed = config::parse_duration(text);
            return parsed && *parsed >= 100ms && *parsed <= 1h ? "" : "must be from 100ms to 1h";
        });
    why->add_option_function<std::string>(
           "--format", [&options](const std::string &format) { options.json = format == "json"; },
           "text, or json: one object.")
        ->check(CLI::IsMember({"text", "json"}));
    return why;
}

int explain(const why::Options &options) {
    const auto explained = why::run(options);
    return explained ? 0 : complain(explained.error());
}

}  // namespace gpusnoop::cli
