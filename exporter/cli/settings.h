// The settings of every command, from the command line and the environment: the path of the
// configuration, and values that override it.
#pragma once

#include <signal.h>

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

}  // namespace gpusnoop::cli
