#include "exporter/probes/frame/processes/traced_processes.h"

namespace gpusnoop::probes {

Result<FollowedProcesses *> TracedProcesses::follow() {
    if (!followed_) {
        if (auto started = targets_.start(); !started) {
            return tl::unexpected(started.error());
        }
        auto followed =
            FollowedProcesses::start({.descendants = following_.descendants,
                                      .except = following_.except,
                                      .looks_always = following_.looks_for_gpu_processes,
                                      .rescan_interval = rescan_interval_},
                                     targets_, cuda_.followed);
        if (!followed) {
            return tl::unexpected(followed.error());
        }
        followed_ = std::move(*followed);
    }
    return followed_.get();
}

std::string TracedProcesses::describe_followed() const {
    if (!targets_.has_gpu_processes() && !targets_.names_any()) {
        return "no process: targets names none";
    }
    std::string text = targets_.has_gpu_processes() ? "GPU processes" : "";
    if (targets_.names_any()) {
        text += text.empty() ? "the processes that the configuration names"
                             : " and those that the configuration names";
    }
    return text + (following_.descendants ? ", and what they start" : "");
}

}  // namespace gpusnoop::probes
