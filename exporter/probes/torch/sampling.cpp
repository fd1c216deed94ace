// What the aggregator does with sampling only.
#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/probes/torch/aggregator.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

void TorchAggregator::note_totals(nanoseconds read_until) {
    const TorchTables *const tables = settings_.tables();
    if (tables == nullptr) {
        return;
    }
    for (const TorchDeviceTotals &of : tables->totals()) {
        TorchProcess *process = processes_.find(of.process);
        if (process == nullptr && nanoseconds(of.process.since_ns) < read_until) {
            if (!tables->sampling(of.process)) {  // it has ended
                tables->forget_totals(of.process, of.device);
                continue;
            }
            process = &processes_.of(of.process);
        }
        if (process != nullptr) {
            note_totals(*process, of);
        }
    }
    processes_.for_each([&](TorchProcess &process) {
        if (const auto sampling = tables->sampling(process.key)) {
            process.rate = sampling->rate;
            process.has_missed_samples = sampling->missed > 0;
        }
    });
}

void TorchAggregator::note_totals(TorchProcess &process, const TorchDeviceTotals &of) {
    TorchProcess::Device &device = process.devices[of.device];
    if (device.name.empty()) {
        device.name = name_of(of.device);
    }
    const torch_totals &now = of.totals;
    const torch_totals before = std::exchange(device.counted, now);
    const auto add = [&](series::Family &family, std::optional<series::Slot> &slot,
                         std::uint64_t amount) {
        if (amount > 0) {
            count(process, device.name, family, slot, amount);
        }
    };
    add(of_.allocations, device.allocations, now.allocations - before.allocations);
    add(of_.allocation_bytes, device.allocation_bytes,
        now.allocation_bytes - before.allocation_bytes);
    add(of_.frees, device.frees, now.frees - before.frees);
    add(of_.free_bytes, device.free_bytes, now.free_bytes - before.free_bytes);
    if (now.has_totals != 0 && of.device.type != 0) {
        const std::uint64_t at_ns = device.totals ? device.totals->at_ns : 0;
        device.totals = {at_ns, now.allocated, now.reserved, now.peak};
    }
}

void TorchAggregator::look_at_costs(nanoseconds now) {
    if (settings_.tables() == nullptr) {
        return;
    }
    processes_.for_each([&](TorchProcess &process) {
        const nanoseconds cost(settings_.cost_of(process.key));
        if (!process.ended && !process.is_given_up && !process.budget.allows(now, cost)) {
            give_up(process);
        }
    });
}

void TorchAggregator::give_up(TorchProcess &process) {
    log::warn("tensors of a process are no longer observed, because that costs it too much",
              {{"probe", "torch"}, {"pid", process.key.tgid}, {"comm", process.comm}});
    settings_.tables()->give_up(process.key);
    release(process);
    process.is_given_up = true;
    settings_.given_up(process);
}

void TorchAggregator::reconcile(const TorchTables::Blocks &live, std::uint64_t until) {
    processes_.for_each([&](TorchProcess &process) {
        const auto of_process = live.find(process.key);
        const auto is_freed = [&](std::uint64_t address, const TorchBlock &block) {
            return block.at_ns < until &&
                   (of_process == live.end() || !of_process->second.contains(address));
        };
        for (const std::uint64_t address : process.blocks.addresses_if(is_freed)) {
            (void)process.blocks.free(address);
            give_back_room(process, 1);
        }
    });
    const TorchTables *const tables = settings_.tables();
    for (const auto &[process, addresses] : live) {
        const TorchProcess *const known = processes_.find(process);
        if (tables == nullptr || (known != nullptr && !known->ended && !known->is_given_up)) {
            continue;
        }
        for (const std::uint64_t address : addresses) {
            tables->forget_block(process, address);
        }
    }
}

std::set<std::uint64_t> TorchAggregator::python_stacks() {
    std::set<std::uint64_t> stacks;
    processes_.for_each([&](TorchProcess &process) {
        const auto &sites = process.blocks.sites();
        SiteNames::forget_idle(process.sites,
                               [&](const Site &site) { return sites.contains(site); });
        for (const auto &[site, amount] : sites) {
            stacks.insert(site.python);
        }
    });
    return stacks;
}

}  // namespace gpusnoop::probes
