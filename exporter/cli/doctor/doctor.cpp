#include "exporter/cli/doctor/doctor.h"

#include <iterator>
#include <utility>

#include "exporter/cli/doctor/kernel_checks.h"
#include "exporter/cli/doctor/node_checks.h"
#include "exporter/cli/doctor/privilege_checks.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/kernel_types.h"

namespace gpusnoop::doctor {

std::vector<Finding> examine(const Result<config::Config> &config, const std::string &config_name) {
    const config::Config settings = config.value_or(config::Config{});
    std::vector<Finding> findings = {
        {"config", config ? Verdict::ok : Verdict::fail,
         config_name + (config ? " is valid" : " is not valid: " + config.error().message),
         config ? "" : "the exporter does not start; the checks below use the defaults"}};
    const auto append = [&](std::vector<Finding> more) {
        findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                        std::make_move_iterator(more.end()));
    };
    const ebpf::SharedKernelTypes types;
    const ebpf::Features features = ebpf::probe_features();
    append(examine_privileges(features, settings));
    append(examine_kernel(features, settings));
    append(examine_node(settings));
    return findings;
}

}  // namespace gpusnoop::doctor
