// The label `gpu` of a process's devices, by several looks at the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/discovery/gpus/visible_gpus.h"

namespace gpusnoop::probes {

// The first look can come before the process has opened its GPUs: CUDA does that in its first call.
// So as long as a look's answer depends on what is open, others follow when labels are asked for:
// at once, and then after one, two and four seconds.
class GpuNames {
public:
    // ESRCH: the process has ended, and what was seen before stays. Another error: no answer, which
    // tells nothing; it is asked again after a second.
    using Look = std::function<Result<discovery::VisibleGpus>()>;
    using Clock = std::chrono::steady_clock;

    GpuNames(discovery::VisibleGpus first, Look look,
             std::function<Clock::time_point()> now = Clock::now)
        : visible_(std::move(first)), look_(std::move(look)), now_(std::move(now)) {}

    [[nodiscard]] std::string name_of(std::optional<std::uint32_t> ordinal);

private:
    void look_again();

    static constexpr unsigned most_looks = 4;  // after the first: each may make others wait

    discovery::VisibleGpus visible_;
    Look look_;
    std::function<Clock::time_point()> now_;
    unsigned looks_ = 0;
    Clock::time_point next_look_{};
};

}  // namespace gpusnoop::probes
