#include "exporter/probes/frame/histogram_settings.h"

#include <algorithm>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/config/problems.h"
#include "exporter/config/reader.h"

namespace gpusnoop::probes {

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
