#include "exporter/cli/doctor/checks.h"

#include <filesystem>
#include <system_error>

#include "exporter/ebpf/libbpf.h"
#include "exporter/probes/frame/registry.h"

namespace gpusnoop::doctor {

namespace {

// With a separator, unless it is there already.
void add_once(std::string &list, const std::string &item) {
    if (list.find(item) == std::string::npos) {
        list += (list.empty() ? "" : "; ") + item;
    }
}

Finding judge(const probes::ProbeKind &kind, const probes::KernelView &kernel,
              const config::Config &config) {
    std::string lacks;
    std::string costs;
    for (const probes::KernelNeed &need : kind.kernel_needs) {
        if (!need.is_met(kernel, config)) {
            add_once(lacks, std::string(need.thing) + " (" + std::string(need.reason) + ")");
            add_once(costs, std::string(need.costs));
        }
    }
    Finding finding{std::string(kind.name), Verdict::ok, "everything that it needs is available",
                    ""};
    if (lacks.empty()) {
        return finding;
    }
    finding.found = "missing: " + lacks;
    if (kind.follows_processes(config)) {
        finding.verdict = Verdict::warn;
        finding.costs = costs;
    } else {
        finding.found += "; the probe is off";
    }
    return finding;
}

}  // namespace

std::vector<Finding> judge_probes(const probes::KernelView &kernel, const config::Config &config) {
    std::vector<Finding> findings;
    for (const probes::ProbeKind *const kind : probes::all_probes()) {
        if (!kind->kernel_needs.empty()) {
            findings.push_back(judge(*kind, kernel, config));
        }
    }
    return findings;
}

std::vector<Finding> examine_probes(const config::Config &config) {
    return judge_probes({.has_member = ebpf::has_member,
                         .has_tracepoint = ebpf::has_tracepoint,
                         .has_file =
                             [](const std::string &path) {
                                 std::error_code error;
                                 return std::filesystem::exists(path, error);
                             }},
                        config);
}

}  // namespace gpusnoop::doctor
