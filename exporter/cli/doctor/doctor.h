// `doctor`: finds which features of the exporter work on this node, and the effect of each missing
// one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"

namespace gpusnoop::doctor {

// Tries everything as the exporter would, with the capabilities of this process, and undoes it: no
// probe stays attached, no file is written. `config` is the configuration, or the mistakes in it;
// with mistakes, the defaults are examined. `config_name` is its name in the findings.
[[nodiscard]] std::vector<Finding> examine(const Result<config::Config> &config,
                                           const std::string &config_name);

}  // namespace gpusnoop::doctor
