// `gpusnoop_exporter top`.
#pragma once

#include "exporter/cli/top/top.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

// `options` must outlive the parsing.
const CLI::App *add_top(CLI::App &command, top::Options &options);

// Runs until the user quits; returns the exit code.
int show_top(const top::Options &options);

}  // namespace gpusnoop::cli
