// Which families have a budget of label sets.
#pragma once

#include <string>
#include <vector>

namespace gpusnoop::probes {

// Full names, for the configuration to check `series.budgets` against.
std::vector<std::string> budgeted_families();

}  // namespace gpusnoop::probes
