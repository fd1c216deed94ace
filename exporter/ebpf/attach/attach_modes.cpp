#include "exporter/ebpf/attach/attach_modes.h"

namespace gpusnoop::ebpf {

std::vector<AttachMode> attach_modes(Attach wanted, const Features &features) {
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

}  // namespace gpusnoop::ebpf
