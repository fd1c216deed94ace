// Requests for memory that PyTorch's allocators refused: from the probe `torch`, which sees them,
// to the probe `cuda`, which explains them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace gpusnoop::probes {

struct TorchRefusal {
    std::uint32_t pid = 0;
    std::uint64_t at_ns = 0;  // CLOCK_MONOTONIC
    std::int32_t device = 0;  // of CUDA, as the program numbers it
    std::uint64_t bytes = 0;
    std::uint64_t allocated = 0;
    std::uint64_t reserved = 0;
    std::uint64_t count = 1;  // refusals of the process on that device that followed each other
};

// For the aggregating thread.
class TorchRefusals {
public:
    // Of each process and device, the first one stays. Nobody may take them: a few are enough.
    void add(const TorchRefusal &refusal) {
        constexpr std::size_t most = 256;
        const std::pair key(refusal.pid, refusal.device);
        if (const auto first = waiting_.find(key); first != waiting_.end()) {
            first->second.count += refusal.count;
        } else if (waiting_.size() < most) {
            waiting_.emplace(key, refusal);
        }
    }
    [[nodiscard]] std::vector<TorchRefusal> take() {
        std::vector<TorchRefusal> all;
        for (const auto &[key, refusal] : std::exchange(waiting_, {})) {
            all.push_back(refusal);
        }
        return all;
    }

private:
    std::map<std::pair<std::uint32_t, std::int32_t>, TorchRefusal> waiting_;
};

using TorchRefusalsPtr = std::shared_ptr<TorchRefusals>;

}  // namespace gpusnoop::probes
