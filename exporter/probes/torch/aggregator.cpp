#include "exporter/probes/torch/aggregator.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/torch/gauges.h"
#include "exporter/processes/user_shares.h"
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
    if (const auto start = ebpf::decode<traced_start_record>(bytes)) {
        if (const TorchProcess *const process =
                processes_.find({start->head.tgid, start->head.since_ns})) {
            settings_.started(*process);
        }
        return true;
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
        const std::uint64_t peak = device.totals ? device.totals->peak : 0;
        device.totals = {record.head.at_ns, record.allocated, record.reserved,
                         std::max<std::uint64_t>(peak, record.allocated)};
    }
    if (record.head.type == TORCH_OUT_OF_MEMORY) {
        count(process, device.name, of_.out_of_memory, device.out_of_memory, 1);
        refused(process, record);
    } else if (process.is_given_up) {
        return;  // it was sent before
    } else if (record.bytes > 0) {
        allocated(process, device, record);
    } else if (record.bytes < 0) {
        if (const auto block = process.blocks.free(record.address)) {
            give_back_room(process, 1);
            freed(process, *block);
        } else {
            freed_unknown(process, device);
        }
    }
}

// Of CUDA: other devices' memory is not known.
void TorchAggregator::refused(const TorchProcess &process, const torch_record &record) const {
    constexpr std::int8_t cuda_type = 1;
    if (record.device_type == cuda_type && record.bytes > 0) {
        settings_.refused({.pid = process.key.tgid,
                           .at_ns = record.head.at_ns,
                           .device = std::max<std::int8_t>(record.device, 0),
                           .bytes = static_cast<std::uint64_t>(record.bytes),
                           .allocated = record.allocated,
                           .reserved = record.reserved});
    }
}

void TorchAggregator::allocated(TorchProcess &process, TorchProcess::Device &device,
                                const torch_record &record) {
    const auto bytes = static_cast<std::uint64_t>(record.bytes);
    if (!settings_.is_sampling) {
        count(process, device.name, of_.allocations, device.allocations, 1);
        count(process, device.name, of_.allocation_bytes, device.allocation_bytes, bytes);
    }
    const bool is_sampled = (record.flags & TORCH_SAMPLED) != 0;
    const TorchBlock block{
        .bytes = bytes,
        .site = {record.stack, record.caller, record.python},
        .device = {record.device_type, record.device},
        .weight = is_sampled ? std::max<std::uint64_t>(record.weight, bytes) : bytes,
        .at_ns = record.head.at_ns};
    // Also of a block that is not followed: its stack is in the kernel's table until the process
    // ends.
    if (const auto ticket = names_.used(process.sites, process, block.site)) {
        settings_.ask_for_site(*ticket, process, block.site);
    }
    if (!find_room_for_block(process)) {
        forgotten_++;
        device.has_missing_blocks = true;
        return;
    }
    if (const auto replaced = process.blocks.allocate(record.address, block)) {
        freed(process, *replaced);  // the record of its free was lost
        give_back_room(process, 1);
    }
}

// One user cannot take the room of all others, with any number of processes: over the limit each
// still has a share, of as many blocks again. A process that holds a share already gets no more.
bool TorchAggregator::find_room_for_block(TorchProcess &process) {
    const std::size_t most = settings_.max_live_allocations;
    const std::size_t share = most / torch_shares;
    if (live_ >= most) {
        if (process.reserved_blocks == 0) {
            process.reserve_user =
                process.uid ? std::optional(processes::sharing_user(*process.uid)) : std::nullopt;
        }
        const auto of_user = reserved_.find(process.reserve_user);
        const std::size_t taken = of_user == reserved_.end() ? 0 : of_user->second;
        if (live_ >= 2 * most || process.blocks.size() >= share || taken >= share) {
            return false;
        }
        reserved_[process.reserve_user]++;
        process.reserved_blocks++;
    }
    live_++;
    return true;
}

void TorchAggregator::give_back_room(TorchProcess &process, std::size_t blocks) {
    live_ -= blocks;
    const std::size_t reserved = std::min(blocks, process.reserved_blocks);
    if (reserved == 0) {
        return;
    }
    process.reserved_blocks -= reserved;
    const auto of_user = reserved_.find(process.reserve_user);
    of_user->second -= reserved;
    if (of_user->second == 0) {
        reserved_.erase(of_user);
    }
}

void TorchAggregator::freed(TorchProcess &process, const TorchBlock &block) {
    if (settings_.is_sampling) {
        return;  // the programs have counted it
    }
    TorchProcess::Device &device = process.devices[block.device];
    count(process, device.name, of_.frees, device.frees, 1);
    count(process, device.name, of_.free_bytes, device.free_bytes, block.bytes);
}

void TorchAggregator::freed_unknown(const TorchProcess &process, TorchProcess::Device &device) {
    device.has_missing_blocks = true;
    if (settings_.is_sampling) {
        return;
    }
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
    if (const TorchTables *const tables = settings_.tables()) {
        for (const std::uint64_t address :
             process.blocks.addresses_if([](auto, const auto &) { return true; })) {
            tables->forget_block(process.key, address);
        }
    }
    give_back_room(process, process.blocks.size());
    process.blocks = {};
    names_.ended(process.sites);
}

void TorchAggregator::tidy(nanoseconds now) {
    note_totals(now);
    look_at_costs(now);
    const TorchTables *const tables = settings_.tables();
    processes_.for_each([&](TorchProcess &process) {
        if (!process.ended) {
            return;
        }
        settings_.ended(process);
        release(process);  // found in /proc: the record of its end was lost
        for (const auto &[device, known] : process.devices) {
            if (tables != nullptr) {
                tables->forget_totals(process.key, device);
            }
        }
    });
    (void)processes_.tidy(now);
}

std::vector<series::FamilySnapshot> TorchAggregator::report() {
    overhead_.note_running(processes_, settings_.cost_of);
    note_totals({});
    series::FamilySet gauges(settings_.series.budget, true);
    add_torch_gauges(gauges, processes_, settings_.max_call_sites, settings_.is_sampling);
    std::vector<series::FamilySnapshot> snapshots = families().snapshots();
    page_families_.add(gauges, snapshots);
    return snapshots;
}

std::map<std::string, std::uint64_t> TorchAggregator::folded() const {
    std::map<std::string, std::uint64_t> folded = families().folded();
    page_families_.add_to(folded);
    return folded;
}

std::vector<ProcessAllocations> TorchAggregator::allocations() const {
    std::vector<ProcessAllocations> all;
    processes_.for_each([&](const TorchProcess &process) {
        if (!process.ended) {
            all.push_back(torch_allocations_of(process, settings_.is_sampling));
        }
    });
    return all;
}

}  // namespace gpusnoop::probes
