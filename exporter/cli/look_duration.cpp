#include "exporter/cli/look_duration.h"

#include <CLI/CLI.hpp>
#include <string>

#include "exporter/config/units.h"

namespace gpusnoop::cli {

void add_look_duration(CLI::App &command, std::chrono::milliseconds &duration) {
    command
        .add_option_function<std::string>(
            "--duration",
            [&duration](const std::string &text) { duration = *config::parse_duration(text); },
            "Length of the measurement, 100ms to 1h (" + config::to_text(duration) + ").")
        ->check([](const std::string &text) {
            using namespace std::chrono_literals;
            const auto parsed = config::parse_duration(text);
            return parsed && *parsed >= 100ms && *parsed <= 1h ? "" : "must be from 100ms to 1h";
        });
}

}  // namespace gpusnoop::cli
