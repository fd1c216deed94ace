#include "exporter/probes/frame/budget.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/config/document.h"
#include "exporter/config/reader.h"
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

bool HistogramsConfig::has(std::string_view name) const {
    return std::ranges::find(names, name) != names.end();
}

void read_histograms(config::Section &file, const std::vector<std::string> &all,
                     config::Config &config) {
    HistogramsConfig value;
    file.texts("histograms", "names of histograms", value.names, [&](const std::string &name) {
        return std::ranges::find(all, name) != all.end()
                   ? ""
                   : in_quotes(name) + " is no histogram" + config::did_you_mean(name, all);
    });
    config.set(std::move(value));
}

}  // namespace gpusnoop::probes
