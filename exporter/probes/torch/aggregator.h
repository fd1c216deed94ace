// Counts what PyTorch's allocators report, and keeps the blocks that tensors hold. No BPF here:
// records in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bpf/torch/torch.h"
#include "exporter/probes/frame/allocations/allocations_api.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/bpf/overhead.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/frame/torch_refusals.h"
#include "exporter/probes/torch/blocks.h"
#include "exporter/probes/torch/budget.h"
#include "exporter/probes/torch/devices.h"
#include "exporter/probes/torch/families.h"
#include "exporter/probes/torch/tables.h"

namespace gpusnoop::probes {

struct TorchProcess : KnownProcess {
    // What the allocator said last.
    struct Totals {
        std::uint64_t at_ns = 0;
        std::uint64_t allocated = 0;
        std::uint64_t reserved = 0;
        std::uint64_t peak = 0;  // the most that was allocated
    };
    struct Device {
        std::string name;
        std::optional<Totals> totals;
        bool has_missing_blocks = false;  // known by a free, or over the limit
        torch_totals counted{};           // with sampling: what the families have of them
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
    // With sampling:
    TorchBudget budget;
    std::uint64_t rate = TORCH_FIRST_RATE;
    bool has_missed_samples = false;
    bool is_given_up = false;  // it cost too much
};

struct TorchSettings {
    SeriesSettings series;
    std::size_t max_live_allocations = 1U << 20U;  // of all processes, but for the shares
    std::size_t max_call_sites = 10;               // on the page, of each process
    std::function<void(std::uint64_t ticket, const TorchProcess &, const Site &)> ask_for_site =
        [](auto, const auto &, const auto &) {};
    std::function<void(std::int32_t stack)> forget_stack = [](auto) {};
    std::function<void(const TorchRefusal &)> refused = [](const auto &) {};
    // A process has made its first call.
    std::function<void(const TorchProcess &)> started = [](const auto &) {};
    std::function<void(const TorchProcess &)> ended = [](const auto &) {};
    // It is no longer observed.
    std::function<void(const TorchProcess &)> given_up = [](const auto &) {};
    // With sampling, the tables of the programs, as soon as these are loaded.
    bool is_sampling = false;
    std::function<const TorchTables *()> tables = [] { return nullptr; };
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

    // With sampling. Forgets live blocks with records from before `until`, of which `live` does not
    // have the addresses: the records of their frees were lost.
    void reconcile(const TorchTables::Blocks &live, std::uint64_t until);
    // The stacks of Python's functions that live blocks have. Forgets the names of sites that had
    // no blocks the last time either.
    [[nodiscard]] std::set<std::uint64_t> python_stacks();

    [[nodiscard]] std::vector<series::FamilySnapshot> report();
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;
    [[nodiscard]] std::vector<ProcessAllocations> allocations() const;
    [[nodiscard]] bool is_sampling() const { return settings_.is_sampling; }
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
    // With sampling. The start of a process from before `read_until` was lost, if it is not known.
    void note_totals(std::chrono::nanoseconds read_until);
    void note_totals(TorchProcess &process, const TorchDeviceTotals &of);
    void look_at_costs(std::chrono::nanoseconds now);
    void give_up(TorchProcess &process);

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
