// `gpusnoop_exporter top`.
#pragma once

#include "exporter/cli/top/top.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

// `options` must outlive the parsing.
const CLI::App *add_top(CLI::App &command, top::Options &options);

// The options that say which exporter is asked, and how it is reached.
void add_exporter(CLI::App &command, top::Address &address, top::Access &access);

// Runs until the user quits; returns the exit code.
int show_top(const top::Options &options);

}  // namespace gpusnoop::cli
