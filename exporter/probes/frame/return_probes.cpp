#include "exporter/probes/frame/return_probes.h"

namespace gpusnoop::probes {

config::Config::Cuda as_is_harmless(config::Config::Cuda cuda, const ebpf::Features &features) {
    if (!features.has_harmless_return_probes()) {
        cuda.endings = config::Endings::exits;
    }
    return cuda;
}

config::FunctionGroups as_is_harmless(config::FunctionGroups groups,
                                      const ebpf::Features &features) {
    if (features.has_harmless_return_probes()) {
        return groups;
    }
    for (auto &[name, group] : groups) {
        group.options.endings = config::Endings::exits;
        for (config::FunctionPattern &pattern : group.functions) {
            pattern.overrides.endings.reset();
        }
    }
    return groups;
}

}  // namespace gpusnoop::probes
