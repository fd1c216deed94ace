#include "exporter/probes/cuda/gpu_names.h"

#include <cerrno>

namespace gpusnoop::probes {

std::string GpuNames::name_of(std::optional<std::uint32_t> ordinal) {
    if (!visible_.is_settled() && looks_ < most_looks) {
        look_again();
    }
    const auto index = ordinal ? visible_.host_index(*ordinal) : visible_.only();
    return index ? std::to_string(*index) : "unknown";
}

void GpuNames::look_again() {
    const auto now = now_();
    if (now < next_look_) {
        return;
    }
    next_look_ = now + std::chrono::seconds(1U << looks_);
    if (auto seen = look_()) {
        visible_ = *std::move(seen);
        looks_++;
    } else if (seen.error().code == ESRCH) {
        looks_ = most_looks;
    }
}

}  // namespace gpusnoop::probes
