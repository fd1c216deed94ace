// What commands have in common that run until they are asked to stop.
#pragma once

#include <functional>

#include "exporter/cli/settings.h"

namespace gpusnoop::cli {

// Reads the configuration, sets up the log, and runs the command; its descriptor is readable once
// SIGINT or SIGTERM asks to stop. Returns the exit code.
[[nodiscard]] int run_until_stopped(
    const Settings &settings,
    const std::function<Result<>(const config::Config &, int stop_fd)> &command);

}  // namespace gpusnoop::cli
