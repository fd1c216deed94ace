#include "exporter/probes/torch/aggregator.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "exporter/ebpf/record.h"
#include "exporter/probes/torch/gauges.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// A site is the place in the program that a tensor comes from, outside of the allocators, which are
// in libc10 and libc10_cuda. If they are all that is known, they are shown.
std::string label_of(const std::vector<symbols::Frame> &frames) {
    const auto is_outside = [](const symbols::Frame &frame) {
        return !frame.module.starts_with("libc10");
    };
    const std::string label =
        symbols::site_label({std::ranges::find_if(frames, is_outside), frames.end()});
    return label == "unknown" ? symbols::site_label(frames) : label;
}

}  // namespace

TorchAggregator::TorchAggregator(TorchSettings settings)
    : CountingAggregator(settings.series),
      settings_(std::move(settings)),
      overhead_(of_.overhead, "torch", settings_.overhead),
      names_({.find = [this](const ProcessKey &key) -> ProcessSites * {
                  TorchProcess *const process = processes_.find(key);
                  return process == nullptr ? nullptr : &process->sites;
              },
              .forget_stack = settings_.forget_stack,
              .label_of = label_of}) {}

bool TorchAggregator::on_record(std::span<const std::byte> bytes) {
    if (const auto record = ebpf::decode<torch_record>(bytes)) {
        if (record->head.type != TORCH_USAGE && record->head.type != TORCH_OUT_OF_MEMORY) {
            return false;
        }
        TorchProcess &process = processes_.of({record->head.tgid, record->head.since_ns});
        const TorchDevice on{record->device_type, record->device};
        TorchProcess::Device &device = process.devices[on];
        if (device.name.empty()) {
            device.name = name_of(on);
        }
        on_usage(process, device, *record);
        return true;
    }
    if (!processes_.on_record(bytes)) {
        return false;
    }
    const auto end = ebpf::decode<traced_end_record>(bytes);
    if (TorchProcess *const ended =
            end ? processes_.find({end->head.tgid, end->head.since_ns}) : nullptr) {
        overhead_.note_ended(*ended, end->cost_ns, end->run_ns);
        release(*ended);
    }
    return true;
}

void TorchAggregator::on_usage(TorchProcess &process, TorchProcess::Device &device,
                               const torch_record &record) {
    // The CPU has several allocators, each with sums of its own.
    const bool has_totals = (record.flags & TORCH_HAS_TOTALS) != 0 && record.device_type != 0;
    if (has_totals && (!device.totals || record.head.at_ns >= device.totals->at_ns)) {
        device.totals = {record.head.at_ns, record.allocated, record.reserved};
    }
    if (record.head.type == TORCH_OUT_OF_MEMORY) {
        count(process, device.name, of_.out_of_memory, device.out_of_memory, 1);
    } else if (record.bytes > 0) {
        allocated(process, device, record);
    } else if (record.bytes < 0) {
        if (const auto block = process.blocks.free(record.address)) {
            live_--;
            freed(process, *block);
        } else {
            freed_unknown(process, device);
        }
    }
}

void TorchAggregator::allocated(TorchProcess &process, TorchProcess::Device &device,
                                const torch_record &record) {
    const auto bytes = static_cast<std::uint64_t>(record.bytes);
    count(process, device.name, of_.allocations, device.allocations, 1);
    count(process, device.name, of_.allocation_bytes, device.allocation_bytes, bytes);
    const TorchBlock block{.bytes = bytes,
                           .site = {record.stack, record.caller},
                           .device = {record.device_type, record.device}};
    // Also of a block that is not followed: its stack is in the kernel's table until the process
    // ends.
    if (const auto ticket = names_.used(process.sites, process.key, block.site)) {
        settings_.ask_for_site(*ticket, process, block.site);
    }
    if (!has_room_for_block(process)) {
        forgotten_++;
        device.has_missing_blocks = true;
        return;
    }
    if (const auto replaced = process.blocks.allocate(record.address, block)) {
        freed(process, *replaced);  // the record of its free was lost
    } else {
        live_++;
    }
}

// One process cannot take the room of all others: over the limit each still has a share, of as many
// blocks again.
bool TorchAggregator::has_room_for_block(const TorchProcess &process) const {
    const std::size_t most = settings_.max_live_allocations;
    return live_ < most || (live_ < 2 * most && process.blocks.size() < most / torch_shares);
}

void TorchAggregator::freed(TorchProcess &process, const TorchBlock &block) {
    TorchProcess::Device &device = process.devices[block.device];
    count(process, device.name, of_.frees, device.frees, 1);
    count(process, device.name, of_.free_bytes, device.free_bytes, block.bytes);
}

void TorchAggregator::freed_unknown(const TorchProcess &process, TorchProcess::Device &device) {
    device.has_missing_blocks = true;
    count(process, device.name, of_.untracked_frees, device.untracked_frees, 1);
}

void TorchAggregator::count(const TorchProcess &process, const std::string &device,
                            series::Family &family, std::optional<series::Slot> &slot,
                            std::uint64_t amount) {
    if (!slot) {
        series::LabelValues labels = process.labels;
        labels.push_back(device);
        slot = family.slot(process.owner, labels);
    }
    family.add(*slot, amount);
}

// Its memory went with it.
void TorchAggregator::release(TorchProcess &process) {
    live_ -= process.blocks.size();
    process.blocks = {};
    names_.ended(process.sites);
}

void TorchAggregator::tidy(nanoseconds now) {
    processes_.for_each([this](TorchProcess &process) {
        if (process.ended) {  // found in /proc: the record of its end was lost
            release(process);
        }
    });
    (void)processes_.tidy(now);
}

std::vector<series::FamilySnapshot> TorchAggregator::report() {
    overhead_.note_running(processes_, settings_.cost_of);
    series::FamilySet gauges(settings_.series.budget, true);
    add_torch_gauges(gauges, processes_, settings_.max_call_sites);
    // Each page has its own gauges, so this is the largest number folded on any one page.
    for (const auto &[family, folded] : gauges.folded()) {
        std::uint64_t &most = folded_gauges_[family];
        most = std::max(most, folded);
    }
    std::vector<series::FamilySnapshot> snapshots = families().snapshots();
    std::ranges::move(gauges.snapshots(), std::back_inserter(snapshots));
    return snapshots;
}

std::map<std::string, std::uint64_t> TorchAggregator::folded() const {
    std::map<std::string, std::uint64_t> folded = families().folded();
    folded.insert(folded_gauges_.begin(), folded_gauges_.end());
    return folded;
}

std::vector<ProcessAllocations> TorchAggregator::allocations() const {
    std::vector<ProcessAllocations> all;
    processes_.for_each([&](const TorchProcess &process) {
        if (!process.ended) {
            all.push_back(torch_allocations_of(process));
        }
    });
    return all;
}

}  // namespace gpusnoop::probes
