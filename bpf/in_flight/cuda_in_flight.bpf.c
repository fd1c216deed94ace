// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The CUDA calls that have not returned. */
#define PROBE cuda

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cuda/threads.bpf.h"
#include "bpf/in_flight/in_flight.bpf.h"

IN_FLIGHT_PROGRAMS(cuda_threads, thread->chosen.ordinal_plus_1 - 1)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
