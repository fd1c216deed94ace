#include "exporter/probes/cuda/gpu_names.h"

#include <utility>

namespace gpusnoop::probes {

std::string GpuNames::name_of(std::optional<std::uint32_t> ordinal) {
    if (!visible_.is_settled() && looks_ < most_looks) {
        looks_++;
        if (auto seen = look_()) {
            visible_ = std::move(*seen);
        } else {
            looks_ = most_looks;
        }
    }
    const auto index = ordinal ? visible_.host_index(*ordinal) : visible_.only();
    return index ? std::to_string(*index) : "unknown";
}

}  // namespace gpusnoop::probes
