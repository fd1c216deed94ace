// The budgets of label sets that the configuration gives the families.
#pragma once

#include "exporter/config/config.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

series::Budget budget_of(const config::Config::Series &series);

}  // namespace gpusnoop::probes
