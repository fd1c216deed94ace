#include "exporter/probes/cuda/sampling.h"

namespace gpusnoop::probes {

LaunchSampling launch_sampling(const CudaConfig &config, ebpf::AttachMode mode) {
    if (config.launches.durations == Durations::all) {
        return {};
    }
    if (mode != ebpf::AttachMode::session) {
        return {.every = 0,
                .obstacle =
                    "only the attach mode session, of Linux 6.13 and later, can leave out "
                    "the end of a call"};
    }
    if (config.endings == ebpf::Endings::exits) {
        return {.every = 0, .obstacle = "with endings: exits, each end has a probe"};
    }
    if (config.keep_times) {
        return {.every = 0, .obstacle = "host.time needs the end of each launch"};
    }
    return {.every = config.launches.every, .obstacle = {}};
}

}  // namespace gpusnoop::probes
