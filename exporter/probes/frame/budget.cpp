#include "exporter/probes/frame/budget.h"

#include <string>

namespace gpusnoop::probes {

series::Budget budget_of(const config::Config::Series &series) {
    return [series](std::string_view family) {
        const auto own = series.budgets.find(std::string(family));
        return own == series.budgets.end() ? series.budget : own->second;
    };
}

}  // namespace gpusnoop::probes
