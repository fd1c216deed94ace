// What a probe needs of the kernel and of the node that not each of them has. `doctor` says what is
// missing, and what that costs.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

// What can be asked of a machine.
struct KernelView {
    std::function<bool(const std::string &type, const std::string &member)> has_member;
    std::function<bool(const std::string &tracepoint)> has_tracepoint;
    std::function<bool(const std::string &path)> has_file;
};

// Texts without a period. Some are about the configuration.
struct KernelNeed {
    std::string_view thing;   // that is missing
    std::string_view reason;  // such as the option that it is built without
    std::string_view costs;   // what does not work then
    bool (*is_met)(const KernelView &kernel, const config::Config &config);
};

}  // namespace gpusnoop::probes
