#include "exporter/probes/torch/gauges.h"

#include <string>
#include <string_view>

#include "exporter/probes/torch/aggregator.h"
#include "exporter/probes/torch/families.h"

namespace gpusnoop::probes {

namespace {

void add(series::Family &family, const TorchProcess &process, std::string_view own,
         std::uint64_t value) {
    const series::LabelValues labels = {process.comm,
                                        process.script,
                                        process.container,
                                        process.slurm_job_id,
                                        std::to_string(process.key.tgid),
                                        std::string(own)};
    family.add(family.slot(1, labels), value);
}

Amount held_on(const TorchProcess &process, const TorchDevice &device) {
    const auto held = process.blocks.devices().find(device);
    return held == process.blocks.devices().end() ? Amount{} : held->second;
}

void add_gauges_of(const TorchProcess &process, const TorchGauges &gauges, std::size_t sites) {
    for (const auto &[key, device] : process.devices) {
        if (device.totals) {
            add(gauges.allocated, process, device.name, device.totals->allocated);
            add(gauges.reserved, process, device.name, device.totals->reserved);
        }
        const Amount held = held_on(process, key);
        add(gauges.outstanding_bytes, process, device.name, held.bytes);
        add(gauges.outstanding_allocations, process, device.name, held.count);
    }
    for (const auto &[label, bytes] :
         largest_labels(process.blocks.sites(), process.sites, sites)) {
        add(gauges.site_bytes, process, label, bytes);
    }
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
                      std::size_t sites) {
    const TorchGauges families = make_torch_gauges(gauges);
    processes.for_each([&](const TorchProcess &process) {
        if (!process.ended) {
            add_gauges_of(process, families, sites);
        }
    });
}

ProcessAllocations torch_allocations_of(const TorchProcess &process) {
    ProcessAllocations all = allocations_of(process);
    for (const auto &[device, held] : process.blocks.devices()) {
        all.amount.bytes += held.bytes;
        all.amount.count += held.count;
    }
    all.sites = largest_first(process.blocks.sites(), process.sites);
    all.is_complete = is_complete(process);
    return all;
}

}  // namespace gpusnoop::probes
