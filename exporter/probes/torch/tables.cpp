#include "exporter/probes/torch/tables.h"

#include <bpf/bpf.h>

#include "exporter/ebpf/maps/hash_map.h"

namespace gpusnoop::probes {

std::vector<TorchDeviceTotals> TorchKernelTables::totals() const {
    std::vector<TorchDeviceTotals> all;
    (void)ebpf::for_each_lookup<torch_totals_key, torch_totals>(
        maps_.totals, maps_.max_totals,
        [&](const torch_totals_key &key, const torch_totals &totals) {
            all.push_back({.process = {key.tgid, key.since_ns},
                           .device = {key.device_type, key.device},
                           .totals = totals});
        });
    return all;
}

std::optional<torch_sampling> TorchKernelTables::sampling(const ProcessKey &process) const {
    torch_sampling sampling{};
    if (bpf_map_lookup_elem(maps_.samplings, &process.tgid, &sampling) != 0 ||
        sampling.since_ns != process.since_ns) {
        return std::nullopt;
    }
    return sampling;
}

void TorchKernelTables::give_up(const ProcessKey &process) const {
    if (auto known = sampling(process)) {
        known->is_given_up = 1;
        bpf_map_update_elem(maps_.samplings, &process.tgid, &*known, BPF_EXIST);
    }
}

TorchTables::Blocks TorchKernelTables::blocks() const {
    Blocks all;
    (void)ebpf::for_each_lookup<torch_block_key, std::uint64_t>(
        maps_.blocks, maps_.max_blocks, [&](const torch_block_key &key, std::uint64_t /*at_ns*/) {
            all[{key.tgid, key.since_ns}].insert(key.address);
        });
    return all;
}

void TorchKernelTables::forget_totals(const ProcessKey &process, const TorchDevice &device) const {
    const torch_totals_key key{process.since_ns, process.tgid, device.type, device.number, 0};
    bpf_map_delete_elem(maps_.totals, &key);
}

void TorchKernelTables::forget_block(const ProcessKey &process, std::uint64_t address) const {
    const torch_block_key key{address, process.since_ns, process.tgid, 0};
    bpf_map_delete_elem(maps_.blocks, &key);
}

}  // namespace gpusnoop::probes
