#include "exporter/probes/frame/budget.h"

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "exporter/probes/frame/histogram_settings.h"
#include "exporter/probes/frame/registry.h"

namespace gpusnoop::probes {

series::Budget budget_of(const config::Config &config) {
    const auto &histograms = config.of<HistogramsConfig>();
    std::set<std::string, std::less<>> off;
    for (const std::string &name : all_histograms()) {
        if (!histograms.has(name)) {
            off.insert(name);
        }
    }
    return [series = config.series, off = std::move(off)](std::string_view family) {
        const auto own = series.budgets.find(std::string(family));
        return off.contains(family) ? 0 : own == series.budgets.end() ? series.budget : own->second;
    };
}

}  // namespace gpusnoop::probes
