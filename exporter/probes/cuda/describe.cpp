#include "exporter/probes/cuda/describe.h"

#include <chrono>

namespace gpusnoop::probes {

namespace {

// The time limit for finding a process's GPUs: all other work waits meanwhile.
constexpr std::chrono::milliseconds patience{50};

}  // namespace

void describe(Process &process, discovery::GpuLookup &gpus) {
    const bool runs = look_up(process);
    const auto visible = runs ? gpus.of(process.key.tgid, patience)
                              : discovery::VisibleGpus::of_unknown(gpus.gpus());
    process.gpu_name = [visible](std::optional<std::uint32_t> ordinal) -> std::string {
        const auto index = ordinal ? visible.host_index(*ordinal) : visible.only();
        return index ? std::to_string(*index) : "unknown";
    };
}

}  // namespace gpusnoop::probes
