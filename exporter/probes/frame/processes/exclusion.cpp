#include "exporter/probes/frame/processes/exclusion.h"

#include <fnmatch.h>

#include <algorithm>
#include <string_view>

#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

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

}  // namespace gpusnoop::probes
