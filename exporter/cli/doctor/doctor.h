// `doctor`: what this node can do for the exporter, and what each thing costs that is missing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"

namespace gpusnoop::doctor {

// Tries everything as the exporter would, with the capabilities of this process, and leaves nothing
// behind: no probe stays attached, no file is written. `config` is the configuration or what is
// wrong with it, when the defaults are examined; `config_name` is what to call it.
[[nodiscard]] std::vector<Finding> examine(const Result<config::Config> &config,
                                           const std::string &config_name);

}  // namespace gpusnoop::doctor
