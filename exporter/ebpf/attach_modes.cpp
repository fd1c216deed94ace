#include "exporter/ebpf/attach_modes.h"

namespace gpusnoop::probes {

using ebpf::AttachMode;

std::vector<AttachMode> attach_modes(config::Config::Cuda::Attach wanted,
                                     const ebpf::Features &features) {
    using Attach = config::Config::Cuda::Attach;
    switch (wanted) {
        case Attach::session:
            return {AttachMode::session};
        case Attach::multi:
            return {AttachMode::multi};
        case Attach::perf:
            return {AttachMode::perf};
        case Attach::automatic:
            break;
    }
    return features.attach_modes();
}

}  // namespace gpusnoop::probes
