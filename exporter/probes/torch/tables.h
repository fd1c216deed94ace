// The tables that the programs of the probe `torch` keep in the kernel with sampling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "bpf/torch/torch.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/torch/devices.h"

namespace gpusnoop::probes {

// Over max_live_allocations, so many users can hold as many blocks again. With sampling, a process
// has one share of them in the kernel.
inline constexpr std::size_t torch_shares = 16;

struct TorchDeviceTotals {
    ProcessKey process;
    TorchDevice device;
    torch_totals totals{};
};

class TorchTables {
public:
    virtual ~TorchTables() = default;

    // What all calls of each process and device add up to.
    [[nodiscard]] virtual std::vector<TorchDeviceTotals> totals() const = 0;
    // Nothing: it has made no call, or has ended.
    [[nodiscard]] virtual std::optional<torch_sampling> sampling(
        const ProcessKey &process) const = 0;
    // From now on nothing of the process is counted.
    virtual void give_up(const ProcessKey &process) const = 0;
    // The addresses of the live sampled blocks.
    using Blocks = std::map<ProcessKey, std::set<std::uint64_t>>;
    [[nodiscard]] virtual Blocks blocks() const = 0;
    // Of a process that has ended.
    virtual void forget_totals(const ProcessKey &process, const TorchDevice &device) const = 0;
    virtual void forget_block(const ProcessKey &process, std::uint64_t address) const = 0;
};

// Borrows the maps' descriptors. For one thread at a time.
class TorchKernelTables final : public TorchTables {
public:
    struct Maps {
        int samplings = -1;
        int totals = -1;
        int blocks = -1;
        std::size_t max_totals = 0;
        std::size_t max_blocks = 0;
    };
    explicit TorchKernelTables(Maps maps) : maps_(maps) {}

    [[nodiscard]] std::vector<TorchDeviceTotals> totals() const override;
    [[nodiscard]] std::optional<torch_sampling> sampling(const ProcessKey &process) const override;
    void give_up(const ProcessKey &process) const override;
    [[nodiscard]] Blocks blocks() const override;
    void forget_totals(const ProcessKey &process, const TorchDevice &device) const override;
    void forget_block(const ProcessKey &process, std::uint64_t address) const override;

private:
    Maps maps_;
};

}  // namespace gpusnoop::probes
