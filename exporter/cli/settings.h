// The settings of every command, from the command line and the environment: the path of the
// configuration, and values that override it.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

// An empty setting keeps the configuration's value.
struct Settings {
    std::string config_file;
    std::vector<std::string> listen_addresses;
    bool systemd_socket = false;
    bool enable_lifecycle = false;
    bool enable_api = false;
    std::string web_config_file;
    std::string telemetry_path;
    std::string log_level;
    std::string log_format;
};

// `settings` must outlive the parsing.
void add_settings(CLI::App &command, Settings &settings);

// Reads the configuration, and applies the settings over it.
[[nodiscard]] Result<config::Config> configure(const Settings &settings);

// Prints the error; returns the exit code.
int complain(const Error &error);

// Call it before any thread starts, so that all threads leave the signals to the one that waits for
// them. Returns the given signals.
sigset_t block_signals(std::initializer_list<int> numbers);

// Reads the configuration, sets up the log, and runs the command; its descriptor is readable once
// SIGINT or SIGTERM asks to stop. Returns the exit code.
[[nodiscard]] int run_until_stopped(
    const Settings &settings,
    const std::function<Result<>(const config::Config &, int stop_fd)> &command);

// The option --duration of the commands that look for a while.

// From 100ms to 1h; `duration` has the default, and must outlive the parsing.
void add_look_duration(CLI::App &command, std::chrono::milliseconds &duration);

}  // namespace gpusnoop::cli
