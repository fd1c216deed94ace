#include "exporter/cli/doctor/unnamed_checks.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "exporter/base/file_id.h"
#include "exporter/base/glob.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/functions/select/unnamed.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/processes/mapping_reader.h"
#include "exporter/processes/open_mapped.h"

namespace gpusnoop::doctor {

namespace {

// Any user can map any number of files, and keep readers of them waiting.
constexpr std::size_t max_files = 10'000;
constexpr std::chrono::seconds max_time{10};

std::set<std::uint32_t> processes_with_cuda(const std::vector<ebpf::Mapping> &mappings,
                                            const config::Config &config) {
    std::set<std::uint32_t> processes;
    for (const ebpf::Mapping &mapping : mappings) {
        if (matches_any(config.of<probes::CudaConfig>().libraries, mapping.name)) {
            processes.insert(mapping.tgid);
        }
    }
    return processes;
}

}  // namespace

std::vector<Finding> examine_unnamed(const std::vector<ebpf::Mapping> &mappings,
                                     ebpf::MappingList &list, const config::Config &config) {
    std::vector<Finding> findings;
    const auto &functions = config.of<probes::FunctionsConfig>();
    if (!functions.enabled) {
        return findings;
    }
    const auto until = std::chrono::steady_clock::now() + max_time;
    const std::set<std::uint32_t> processes = processes_with_cuda(mappings, config);
    processes::MappingReader paths(list);
    std::set<FileId> examined;
    for (const ebpf::Mapping &mapping : mappings) {
        if (!processes.contains(mapping.tgid) || !examined.insert(mapping.file).second) {
            continue;
        }
        if (examined.size() > max_files || std::chrono::steady_clock::now() >= until) {
            findings.push_back({"unnamed_libraries", Verdict::ok,
                                "CUDA processes map too many files to examine all of them", ""});
            return findings;
        }
        auto mapped = paths.path_of(mapping);
        const std::string path = mapped.value_or(mapping.name);
        const auto file = processes::open_mapped(mapping, std::move(mapped), list);
        if (!file) {
            continue;  // its process may have ended
        }
        const auto exports =
            probes::unnamed_exports(file->readable(), mapping.name, path, functions.groups);
        if (!exports) {
            continue;  // no program can load it, either, or it is far larger than any library
        }
        for (const probes::UnnamedExports &one : *exports) {
            if (one.is_counted) {
                continue;
            }
            findings.push_back({"unnamed_libraries", Verdict::warn,
                                path + " exports " + one.function + " of the group " + one.group +
                                    ", whose libraries have other names",
                                "calls of the group's functions in it are not counted",
                                "add its name to functions.groups." + one.group + ".libraries"});
        }
    }
    return findings;
}

}  // namespace gpusnoop::doctor
