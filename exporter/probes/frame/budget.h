// The budgets of label sets that the configuration gives the families: none for a histogram that is
// not in `histograms`.
#pragma once

#include <cstdint>
#include <string_view>

#include "exporter/config/config.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

series::Budget budget_of(const config::Config &config);

// For families that are never counted in.
inline std::uint32_t one_for_each(std::string_view /*family*/) {
    return 1;
}

}  // namespace gpusnoop::probes
