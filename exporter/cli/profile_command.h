// The command `profile`.
#pragma once

#include "exporter/cli/settings.h"
#include "exporter/probes/profile/run.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

// `options` must outlive the parsing.
const CLI::App *add_profile(CLI::App &command, probes::ProfileOptions &options);

// Returns the exit code.
int profile(const Settings &settings, const probes::ProfileOptions &options);

}  // namespace gpusnoop::cli
