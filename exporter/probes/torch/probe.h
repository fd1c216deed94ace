// The probe `torch`: the memory that tensors hold, as PyTorch's allocators report it.
//
// The allocators report each block to a function of libc10. torch_enter (bpf/torch/torch.bpf.c)
// sends one record per call, at its entry, with the arguments and the call stack of an allocation.
// Starts and ends of processes are in the same ring (bpf/lib/traced.bpf.h), so the records of a
// device are in order: the allocator holds a lock of the device while it reports. Shared memory of
// the CPU is reported after it was unmapped, and without a lock.
//
// aggregator.h keeps the blocks of each process (blocks.h) and the allocator's last totals, from
// which gauges.h makes the gauges of each page. There is no table in the kernel: the totals show
// how much lost records have missed, and an address that is handed out again was freed. Call sites,
// their names and the document are the same code as for `cuda`: call_sites.h and
// allocations_api.h in probes/frame/allocations/.
#pragma once

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

extern const ProbeKind torch_kind;

}  // namespace gpusnoop::probes
