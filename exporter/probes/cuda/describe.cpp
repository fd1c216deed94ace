#include "exporter/probes/cuda/describe.h"

namespace gpusnoop::probes {

void describe(Process &process, discovery::GpuLookup &gpus) {
    const bool runs = look_up(process);
    const auto visible =
        runs ? gpus.of(process.key.tgid) : discovery::VisibleGpus::of_unknown(gpus.gpus());
    process.gpu_name = [visible](std::optional<std::uint32_t> ordinal) -> std::string {
        const auto index = ordinal ? visible.host_index(*ordinal) : visible.only();
        return index ? std::to_string(*index) : "unknown";
    };
}

}  // namespace gpusnoop::probes
