// What the probe may cost a process with sampling.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace gpusnoop::probes {

// A share of a CPU. A process can save up the share of one `window` at most.
class TorchBudget {
public:
    static constexpr std::int64_t per_mille = 5;
    static constexpr std::chrono::seconds window{10};

    // `cost` is what the process had cost at `now`, by the programs' count. False: too much.
    [[nodiscard]] bool allows(std::chrono::nanoseconds now, std::chrono::nanoseconds cost);

private:
    static constexpr std::chrono::nanoseconds share_of(std::chrono::nanoseconds time) {
        return time * per_mille / 1000;
    }

    std::chrono::nanoseconds left_ = share_of(window);
    std::optional<std::chrono::nanoseconds> looked_;  // when it did last
    std::chrono::nanoseconds cost_{};                 // at that time
};

}  // namespace gpusnoop::probes
