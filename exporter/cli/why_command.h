// `gpusnoop_exporter why`.
#pragma once

#include "exporter/cli/why/why.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

// `options` must outlive the parsing.
const CLI::App *add_why(CLI::App &command, why::Options &options);

// Prints the report; returns the exit code.
int explain(const why::Options &options);

}  // namespace gpusnoop::cli
