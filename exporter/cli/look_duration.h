// The option --duration of the commands that look for a while.
#pragma once

#include <chrono>

namespace CLI {
class App;
}

namespace gpusnoop::cli {

// From 100ms to 1h; `duration` has the default, and must outlive the parsing.
void add_look_duration(CLI::App &command, std::chrono::milliseconds &duration);

}  // namespace gpusnoop::cli
