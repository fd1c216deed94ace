#include "exporter/probes/frame/libraries/start_discovery.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/discovery/library.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

namespace {

// The reason why a file is excluded from all probes, or nothing. `exclude` has globs of paths, and
// build ids after "build_id:". A file that is not open yet is checked by its path only.
std::function<std::optional<std::string>(const discovery::Library &)> exclusion(
    const std::vector<std::string> &exclude) {
    if (exclude.empty()) {
        return {};
    }
    constexpr std::string_view prefix = "build_id:";
    std::vector<std::string> globs;
    std::vector<std::string> builds;
    for (const std::string &entry : exclude) {
        if (entry.starts_with(prefix)) {
            builds.push_back(entry.substr(prefix.size()));
        } else {
            globs.push_back(entry);
        }
    }
    return [globs, builds](const discovery::Library &library) -> std::optional<std::string> {
        for (const std::string &glob : globs) {
            if (::fnmatch(glob.c_str(), library.path.c_str(), 0) == 0) {
                return "discovery.exclude has " + glob;
            }
        }
        if (builds.empty() || library.readable() < 0) {
            return std::nullopt;
        }
        const auto elf = symbols::ElfFile::open(library.readable(), library.limits);
        const auto build = elf ? elf->build_id() : std::nullopt;
        if (build && std::ranges::find(builds, *build) != builds.end()) {
            return "discovery.exclude has its build id";
        }
        return std::nullopt;
    };
}

}  // namespace

discovery::Discovery::Settings discovery_settings(const config::Config &config) {
    return {.rescan_interval = config.discovery.rescan_interval,
            .keep = config.discovery.keep,
            .preattach = config.discovery.preattach,
            .exclude = exclusion(config.discovery.exclude)};
}

Result<std::unique_ptr<discovery::Discovery>> start_discovery(const config::Config &config,
                                                              discovery::Attacher &attacher) {
    auto discovery = discovery::Discovery::open(discovery_settings(config), {&attacher});
    if (discovery) {
        (*discovery)->start();
    }
    return discovery;
}

}  // namespace gpusnoop::probes
