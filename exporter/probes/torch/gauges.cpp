#include "exporter/probes/torch/gauges.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/probes/torch/aggregator.h"
#include "exporter/probes/torch/estimates.h"
#include "exporter/probes/torch/families.h"

namespace gpusnoop::probes {

namespace {

series::LabelValues labels_of(const TorchProcess &process) {
    return {process.comm, process.script, process.container, process.slurm_job_id,
            std::to_string(process.key.tgid)};
}

void add(series::Family &family, const TorchProcess &process, std::string_view own,
         std::uint64_t value) {
    series::LabelValues labels = labels_of(process);
    labels.emplace_back(own);
    family.add(family.slot(1, labels), value);
}

Amount held_on(const TorchProcess &process, const TorchDevice &device) {
    const auto held = process.blocks.devices().find(device);
    return held == process.blocks.devices().end() ? Amount{} : held->second;
}

void add_totals(const TorchProcess &process, const TorchProcess::Device &device,
                const TorchGauges &gauges) {
    if (device.totals) {
        add(gauges.allocated, process, device.name, device.totals->allocated);
        add(gauges.reserved, process, device.name, device.totals->reserved);
        add(gauges.peak, process, device.name, device.totals->peak);
    }
}

// Of all devices that have sums; nothing: none has.
std::optional<std::uint64_t> allocated_by(const TorchProcess &process) {
    std::optional<std::uint64_t> sum;
    for (const auto &[key, device] : process.devices) {
        if (device.totals) {
            sum = sum.value_or(0) + device.totals->allocated;
        }
    }
    return sum;
}

// Once it is given up, what was known of it is out of date.
void add_sampled_gauges_of(const TorchProcess &process, const TorchGauges &gauges,
                           std::size_t sites) {
    series::Family &rate = gauges.sample_bytes;
    rate.add(rate.slot(1, labels_of(process)), process.is_given_up ? 0 : process.rate);
    if (process.is_given_up) {
        return;
    }
    for (const auto &[key, device] : process.devices) {
        add_totals(process, device, gauges);
    }
    const auto allocated = allocated_by(process);
    std::uint64_t estimated = 0;
    const auto estimates = estimates_of(process.blocks, process.sites, process.rate);
    for (std::size_t i = 0; i < estimates.size(); i++) {
        estimated += estimates[i].bytes;
        if (i < sites) {
            add(gauges.site_bytes, process, estimates[i].label, estimates[i].bytes);
            add(gauges.site_error_bytes, process, estimates[i].label, estimates[i].error);
        }
    }
    if (allocated && sites > 0) {
        add(gauges.site_bytes, process, "[not sampled]",
            *allocated - std::min(*allocated, estimated));
    }
}

void add_gauges_of(const TorchProcess &process, const TorchGauges &gauges, std::size_t sites) {
    for (const auto &[key, device] : process.devices) {
        add_totals(process, device, gauges);
        const Amount held = held_on(process, key);
        add(gauges.outstanding_bytes, process, device.name, held.bytes);
        add(gauges.outstanding_allocations, process, device.name, held.count);
    }
    for (const auto &[label, bytes] :
         largest_labels(process.blocks.sites(), process.sites, sites)) {
        add(gauges.site_bytes, process, label, bytes);
    }
}

// With sampling, the programs count the calls: do these add up to what the allocator says?
bool has_all_calls(const TorchProcess &process) {
    return !process.has_missed_samples && !process.is_given_up &&
           std::ranges::all_of(process.devices, [](const auto &known) {
               const auto &[key, device] = known;
               return !device.totals ||
                      device.counted.allocation_bytes - device.counted.free_bytes ==
                          device.totals->allocated;
           });
}

// Were all blocks that it holds seen being allocated? The allocator says how much that is; without
// its sums, only a free of another block, or one over the limit, shows that they were not.
bool is_complete(const TorchProcess &process) {
    for (const auto &[key, device] : process.devices) {
        if (device.totals ? held_on(process, key).bytes != device.totals->allocated
                          : device.has_missing_blocks) {
            return false;
        }
    }
    return true;
}

}  // namespace

void add_torch_gauges(series::FamilySet &gauges, const ProcessTable<TorchProcess> &processes,
                      std::size_t sites, bool is_sampling) {
    const TorchGauges families = make_torch_gauges(gauges);
    processes.for_each([&](const TorchProcess &process) {
        if (process.ended) {
            return;
        }
        if (is_sampling) {
            add_sampled_gauges_of(process, families, sites);
        } else {
            add_gauges_of(process, families, sites);
        }
    });
}

// With sampling, the amounts are estimates, by the samples.
ProcessAllocations torch_allocations_of(const TorchProcess &process, bool is_sampling) {
    ProcessAllocations all = allocations_of(process);
    if (is_sampling) {
        for (const auto &[site, amount] : process.blocks.sites()) {
            all.amount.bytes += amount.bytes;
            all.amount.count += amount.count;
            if (amount.bytes >= least_samples * process.rate) {
                all.sites.push_back(
                    {amount, process.sites.name_of(site),
                     error_of_estimate(process.blocks.variance_of(site), process.rate)});
            }
        }
        std::ranges::stable_sort(all.sites, std::ranges::greater(),
                                 [](const SiteAllocations &site) { return site.amount.bytes; });
        all.is_complete = has_all_calls(process);
        return all;
    }
    for (const auto &[device, held] : process.blocks.devices()) {
        all.amount.bytes += held.bytes;
        all.amount.count += held.count;
    }
    all.sites = largest_first(process.blocks.sites(), process.sites);
    all.is_complete = is_complete(process);
    return all;
}

}  // namespace gpusnoop::probes
