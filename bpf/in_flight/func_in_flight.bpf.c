// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The calls of named functions that have not returned. */
#define PROBE func

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/functions/threads.bpf.h"
#include "bpf/cuda/cuda.h"
#include "bpf/in_flight/in_flight.bpf.h"

IN_FLIGHT_PROGRAMS(func_threads, CUDA_DEVICE_UNCHOSEN)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
