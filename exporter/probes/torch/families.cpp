#include "exporter/probes/torch/families.h"

#include <vector>

#include "exporter/probes/frame/bpf/overhead.h"

namespace gpusnoop::probes {

namespace {

const std::vector<series::Label> of_device = {{"device", true}};

}  // namespace

TorchFamilies make_torch_families(series::FamilySet &set) {
    return {
        .allocations = set.counter("torch_memory_allocations_total",
                                   "Memory blocks that PyTorch's allocators allocated for tensors.",
                                   of_device),
        .allocation_bytes =
            set.counter("torch_memory_allocation_bytes_total",
                        "Bytes of the blocks in torch_memory_allocations_total, as rounded by "
                        "the allocator.",
                        of_device),
        .frees = set.counter("torch_memory_frees_total",
                             "Blocks of torch_memory_allocations_total that tensors released.",
                             of_device),
        .free_bytes = set.counter("torch_memory_free_bytes_total",
                                  "Bytes of the blocks in torch_memory_frees_total.", of_device),
        .untracked_frees =
            set.counter("torch_memory_untracked_frees_total",
                        "Released blocks whose allocation was not observed: it is older than the "
                        "exporter, exceeded torch.max_live_allocations, or its record was lost.",
                        of_device),
        .out_of_memory = set.counter("torch_out_of_memory_total",
                                     "Requests that PyTorch's allocators refused after they had "
                                     "freed their caches: the program gets an OutOfMemoryError.",
                                     of_device),
        .overhead = make_overhead_family(set),
    };
}

TorchGauges make_torch_gauges(series::FamilySet &set) {
    return {
        .allocated = set.gauge("torch_memory_allocated_bytes",
                               "Bytes in use by tensors, according to PyTorch's allocator in "
                               "each running process (torch.cuda.memory_allocated).",
                               of_device),
        .reserved = set.gauge("torch_memory_reserved_bytes",
                              "Bytes of device memory that the allocator holds, both in use by "
                              "tensors and cached (torch.cuda.memory_reserved).",
                              of_device),
        .peak = set.gauge("torch_memory_peak_allocated_bytes",
                          "Most bytes that PyTorch's allocator has reported as in use by tensors, "
                          "in each running process since the exporter has observed it.",
                          of_device),
        .outstanding_bytes = set.gauge("torch_memory_outstanding_bytes",
                                       "Bytes of live blocks whose allocation was observed, per "
                                       "running process.",
                                       of_device),
        .outstanding_allocations = set.gauge("torch_memory_outstanding_allocations",
                                             "Live blocks whose allocation was observed, per "
                                             "running process.",
                                             of_device),
        .site_bytes = set.gauge("torch_memory_site_outstanding_bytes",
                                "Bytes of live blocks by call site, for the call sites that hold "
                                "the most in each running process; /api/v1/torch_allocations has "
                                "all of them. With torch.sampling, an estimate: the rest is in "
                                "the site \"[not sampled]\".",
                                {{"site"}}),
        .site_error_bytes = set.gauge("torch_memory_site_error_bytes",
                                      "With torch.sampling, how far the value in "
                                      "torch_memory_site_outstanding_bytes may be off, with a "
                                      "probability of 95 %.",
                                      {{"site"}}),
        .sample_bytes = set.gauge("torch_memory_sample_bytes",
                                  "With torch.sampling, the mean number of allocated bytes from "
                                  "one sampled block to the next, in each running process. 0: "
                                  "observing its tensors cost more than 0.5 % of a CPU, so they "
                                  "are not observed any more.",
                                  {}),
    };
}

}  // namespace gpusnoop::probes
