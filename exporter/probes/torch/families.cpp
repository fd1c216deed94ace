#include "exporter/probes/torch/families.h"

#include <vector>

#include "exporter/probes/frame/overhead.h"

namespace gpusnoop::probes {

namespace {

const std::vector<series::Label> of_device = {{"device", true}};

}  // namespace

TorchFamilies make_torch_families(series::FamilySet &set) {
    return {
        .allocations =
            set.counter("torch_memory_allocations_total",
                        "Blocks of memory that PyTorch's allocators gave to tensors.", of_device),
        .allocation_bytes =
            set.counter("torch_memory_allocation_bytes_total",
                        "Bytes of these blocks, as the allocator rounds them.", of_device),
        .frees = set.counter("torch_memory_frees_total",
                             "Blocks that tensors gave back, of those in "
                             "torch_memory_allocations_total.",
                             of_device),
        .free_bytes = set.counter("torch_memory_free_bytes_total",
                                  "Bytes of the blocks in torch_memory_frees_total.", of_device),
        .untracked_frees =
            set.counter("torch_memory_untracked_frees_total",
                        "Blocks that were given back and whose allocation was not seen: it is "
                        "older than the exporter, over torch.max_live_allocations, or its record "
                        "was lost.",
                        of_device),
        .out_of_memory = set.counter("torch_out_of_memory_total",
                                     "Requests that PyTorch's allocators refused, after they had "
                                     "freed what they cached: the program gets an "
                                     "OutOfMemoryError.",
                                     of_device),
        .overhead = make_overhead_family(set),
    };
}

TorchGauges make_torch_gauges(series::FamilySet &set) {
    return {
        .allocated = set.gauge("torch_memory_allocated_bytes",
                               "Bytes in use by tensors, as PyTorch's allocator of each running "
                               "process counts them (torch.cuda.memory_allocated).",
                               of_device),
        .reserved = set.gauge("torch_memory_reserved_bytes",
                              "Bytes that the allocator holds of the device, for tensors and "
                              "cached (torch.cuda.memory_reserved).",
                              of_device),
        .outstanding_bytes = set.gauge("torch_memory_outstanding_bytes",
                                       "Bytes of the blocks that were seen being allocated and are "
                                       "not freed now, of each running process.",
                                       of_device),
        .outstanding_allocations =
            set.gauge("torch_memory_outstanding_allocations", "Number of these blocks.", of_device),
        .site_bytes = set.gauge("torch_memory_site_outstanding_bytes",
                                "Bytes of these blocks by where in the program they were "
                                "allocated, of the call sites that hold the most in each running "
                                "process; /api/v1/torch_allocations has all.",
                                {{"site"}}),
    };
}

}  // namespace gpusnoop::probes
