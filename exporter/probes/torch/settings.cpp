#include "exporter/probes/torch/settings.h"

#include <utility>

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

void read_torch(config::Section torch, config::Config &config) {
    TorchConfig value;
    torch.boolean("enabled", value.enabled);
    torch.boolean("sampling", value.sampling);
    torch.file_name_globs("libraries", value.libraries);
    torch.choice("attach", value.attach, ebpf::attach_names);
    torch.ring_bytes("ring_bytes", value.ring_bytes);
    torch.integer("max_live_allocations", value.max_live_allocations, 1'024, 64U << 20U);
    torch.boolean("call_stacks", value.call_stacks);
    torch.integer("max_call_stacks", value.max_call_stacks, 16, 1U << 20U);
    torch.integer("max_call_sites", value.max_call_sites, 0, 1'000);
    torch.finish();
    config.set(std::move(value));
}

}  // namespace gpusnoop::probes
