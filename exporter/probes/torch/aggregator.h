// Counts what PyTorch's allocators report, and keeps the blocks that tensors hold. No BPF here:
// records in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bpf/torch.h"
#include "exporter/probes/frame/allocations/allocations_api.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/bpf/overhead.h"
#include "exporter/probes/frame/counting_aggregator.h"
#include "exporter/probes/frame/torch_refusals.h"
#include "exporter/probes/torch/blocks.h"
#include "exporter/probes/torch/devices.h"
#include "exporter/probes/torch/families.h"

namespace gpusnoop::probes {

struct TorchProcess : KnownProcess {
    // What the allocator said last.
    struct Totals {
        std::uint64_t at_ns = 0;
        std::uint64_t allocated = 0;
        std::uint64_t reserved = 0;
    };
    struct Device {
        std::string name;
        std::optional<Totals> totals;
        bool has_missing_blocks = false;  // known by a free, or over the limit
        // Slots, looked up once.
        std::optional<series::Slot> allocations, allocation_bytes, frees, free_bytes,
            untracked_frees, out_of_memory;
    };
    std::map<TorchDevice, Device> devices;
    TorchBlocks blocks;
    // How many blocks it holds of the reserve, of which user's share.
    std::size_t reserved_blocks = 0;
    std::optional<std::uint32_t> reserve_user;
    ProcessSites sites;
};

// Over max_live_allocations, so many users can hold as many blocks again.
inline constexpr std::size_t torch_shares = 16;

struct TorchSettings {
    SeriesSettings series;
    std::size_t max_live_allocations = 1U << 20U;  // of all processes, but for the shares
    std::size_t max_call_sites = 10;               // on the page, of each process
    std::function<void(std::uint64_t ticket, const TorchProcess &, const Site &)> ask_for_site =
        [](auto, const auto &, const auto &) {};
    std::function<void(std::int32_t stack)> forget_stack = [](auto) {};
    std::function<void(const TorchRefusal &)> refused = [](const auto &) {};
    CostOf cost_of = [](const auto &) { return 0; };
    OverheadLimitsPtr overhead{};
};

class TorchAggregator : public CountingAggregator<make_torch_families, TorchProcess> {
public:
    explicit TorchAggregator(TorchSettings settings);

    // From the ring, in its order. False: not a record that it knows.
    bool on_record(std::span<const std::byte> bytes);
    void on_site_name(symbols::StackReply answer) { names_.on_name(std::move(answer)); }
    // For once a second; all records from before `now` must have been read.
    void tidy(std::chrono::nanoseconds now);

    [[nodiscard]] std::vector<series::FamilySnapshot> report();
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;
    [[nodiscard]] std::vector<ProcessAllocations> allocations() const;
    // Allocations over the limit, which are counted and not followed.
    [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

private:
    void on_usage(TorchProcess &process, TorchProcess::Device &device, const torch_record &record);
    void refused(const TorchProcess &process, const torch_record &record) const;
    void allocated(TorchProcess &process, TorchProcess::Device &device, const torch_record &record);
    // Takes the room, too.
    [[nodiscard]] bool find_room_for_block(TorchProcess &process);
    void give_back_room(TorchProcess &process, std::size_t blocks);
    void freed(TorchProcess &process, const TorchBlock &block);
    void freed_unknown(const TorchProcess &process, TorchProcess::Device &device);
    void count(const TorchProcess &process, const std::string &device, series::Family &family,
               std::optional<series::Slot> &slot, std::uint64_t amount);
    void release(TorchProcess &process);

    TorchSettings settings_;
    Overhead overhead_;
    SiteNames names_;
    std::size_t live_ = 0;  // blocks of all processes
    // Of these, blocks of the reserve, by user. Processes of users that are not known share one.
    std::map<std::optional<std::uint32_t>, std::size_t> reserved_;
    std::uint64_t forgotten_ = 0;
    series::PageFamilies page_families_;
};

}  // namespace gpusnoop::probes
