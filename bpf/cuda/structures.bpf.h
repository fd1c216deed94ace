/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Structures that functions take by value. Those of more than 16 bytes are words on the stack on
 * x86_64, where call_read_stack() finds them. On arm64 the caller passes the address of a copy
 * (AAPCS64 6.8.2, rule B.4): here their words go to where x86_64 has them, and so do the arguments
 * around them. Smaller ones, such as dim3, are in as many registers on both. */
#ifndef GPUSNOOP_CUDA_STRUCTURES_BPF_H
#define GPUSNOOP_CUDA_STRUCTURES_BPF_H

#include "bpf/cuda/process.bpf.h"

static __always_inline void call_read_structures(struct call *call)
{
#if defined(__TARGET_ARCH_arm64)
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_ALLOCATE_3D: /* cudaPitchedPtr *, cudaExtent */
		bpf_probe_read_user(&call->argument[7], 3 * sizeof(__u64),
				    (const void *)call->argument[2]);
		break;
	case CUDA_SET_3D: /* cudaPitchedPtr, int, cudaExtent, and a stream if it is Async */
		bpf_probe_read_user(&call->argument[7], 4 * sizeof(__u64),
				    (const void *)call->argument[1]);
		bpf_probe_read_user(&call->argument[11], 3 * sizeof(__u64),
				    (const void *)call->argument[3]);
		call->argument[1] = call->argument[2];
		call->argument[2] = call->argument[4];
		break;
	}
#endif
}

#endif
