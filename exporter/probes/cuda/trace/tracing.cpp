#include "exporter/probes/cuda/trace/tracing.h"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>

#include "bpf/cuda/cuda.h"
#include "bpf/lib/cost.h"
#include "cuda.skel.h"

namespace gpusnoop::probes {

void set_up_tracing(cuda_bpf &skeleton, const CudaTracing *tracing) {
    if (tracing == nullptr) {
        bpf_map__set_autocreate(skeleton.maps.cuda_traces, false);
        bpf_map__set_autocreate(skeleton.maps.cuda_trace_lost, false);
        return;
    }
    bpf_map__set_max_entries(skeleton.maps.cuda_traces, tracing->ring_bytes);
    // This ring stays empty.
    bpf_map__set_max_entries(skeleton.maps.cuda_events,
                             static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE)));
    auto &settings = *skeleton.rodata;
    settings.tracing = true;
    settings.trace_stacks = tracing->stacks;
    settings.traced_pid_count =
        static_cast<std::uint32_t>(std::min<std::size_t>(tracing->pids.size(), TRACED_PIDS));
    std::copy_n(tracing->pids.begin(), settings.traced_pid_count, settings.traced_pids);
    for (const std::uint16_t number : tracing->functions) {
        settings.traced_functions[number / 64U] |= std::uint64_t{1} << (number % 64U);
    }
}

}  // namespace gpusnoop::probes
