// The label `gpu` of a process's devices, by several looks at the process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "exporter/discovery/gpus/visible_gpus.h"

namespace gpusnoop::probes {

// The first look can come before the process has opened its GPUs: CUDA does that in its first call.
// So as long as a look's answer depends on what is open, another follows when a label is asked for.
class GpuNames {
public:
    // Empty optional: the process has ended.
    using Look = std::function<std::optional<discovery::VisibleGpus>()>;

    GpuNames(discovery::VisibleGpus first, Look look)
        : visible_(std::move(first)), look_(std::move(look)) {}

    [[nodiscard]] std::string name_of(std::optional<std::uint32_t> ordinal);

private:
    static constexpr unsigned most_looks = 4;  // after the first: each may make others wait

    discovery::VisibleGpus visible_;
    Look look_;
    unsigned looks_ = 0;
};

}  // namespace gpusnoop::probes
