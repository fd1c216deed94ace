// What every command takes from the command line and the environment: where the configuration is,
// and what wins over it.
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

// An empty setting leaves the configuration's value.
struct Settings {
    std::string config_file;
    std::vector<std::string> listen_addresses;
    bool systemd_socket = false;
    std::string web_config_file;
    std::string telemetry_path;
    std::string log_level;
    std::string log_format;
};

// `settings` outlives the parsing.
void add_settings(CLI::App &command, Settings &settings);

// The configuration, read again, with the settings over it.
[[nodiscard]] Result<config::Config> configure(const Settings &settings);

// Says what is wrong; returns the exit code.
int complain(const Error &error);

// Before any thread starts, so that all of them leave the signals to whoever waits for them.
// Returns those that are given.
sigset_t block_signals(std::initializer_list<int> numbers);

}  // namespace gpusnoop::cli
