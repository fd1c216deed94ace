/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The CUDA probe's contract: which functions it traces, and the records it sends. */
#ifndef GPUSNOOP_CUDA_H
#define GPUSNOOP_CUDA_H

#include "bpf/lib/wire.h"

/* What a traced function does, which decides how its arguments are read:
 *   allocate    (where to put the address, bytes)
 *   free        (address)
 *   copy        (destination, source, bytes, kind)
 *   launch      (kernel, grid x and y, grid z, block x and y, block z): a dim3 travels in two words
 *   get_kernel  (where to put the handle, host function) */
enum cuda_operation {
	CUDA_ALLOCATE,
	CUDA_FREE,
	CUDA_COPY,
	CUDA_COPY_ASYNC,
	CUDA_LAUNCH,
	CUDA_GET_KERNEL,
	CUDA_OPERATION_COUNT
};

/* Symbol, the public function it stands for, what it does. `<<<>>>` compiles to __cudaLaunchKernel
 * from nvcc 13 on, with a handle that __cudaGetKernel gave for the host function. The _ptsz and
 * _ptds variants are what programs call that were compiled with per-thread default streams. */
#define CUDA_FUNCTIONS(FUNCTION)                                                                   \
	FUNCTION(cudaMalloc, cudaMalloc, CUDA_ALLOCATE)                                            \
	FUNCTION(cudaFree, cudaFree, CUDA_FREE)                                                    \
	FUNCTION(cudaMemcpy, cudaMemcpy, CUDA_COPY)                                                \
	FUNCTION(cudaMemcpy_ptds, cudaMemcpy, CUDA_COPY)                                           \
	FUNCTION(cudaMemcpyAsync, cudaMemcpyAsync, CUDA_COPY_ASYNC)                                \
	FUNCTION(cudaMemcpyAsync_ptsz, cudaMemcpyAsync, CUDA_COPY_ASYNC)                           \
	FUNCTION(cudaLaunchKernel, cudaLaunchKernel, CUDA_LAUNCH)                                  \
	FUNCTION(cudaLaunchKernel_ptsz, cudaLaunchKernel, CUDA_LAUNCH)                             \
	FUNCTION(__cudaLaunchKernel, cudaLaunchKernel, CUDA_LAUNCH)                                \
	FUNCTION(__cudaLaunchKernel_ptsz, cudaLaunchKernel, CUDA_LAUNCH)                           \
	FUNCTION(__cudaGetKernel, __cudaGetKernel, CUDA_GET_KERNEL)

enum cuda_function {
#define FUNCTION(symbol, name, operation) CUDA_FUNCTION_##symbol,
	CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
	    CUDA_FUNCTION_COUNT
};

/* The attach cookie of a function. */
#define CUDA_COOKIE(function, operation) ((operation) * (1ULL << 32) + (function))
#define CUDA_COOKIE_FUNCTION(cookie)	 ((__u16)(cookie))
#define CUDA_COOKIE_OPERATION(cookie)	 ((__u32)((cookie) >> 32))

/* cudaMemcpyKind, by the values of CUDA's driver_types.h. */
enum cuda_copy_kind {
	CUDA_COPY_H2H = 0,
	CUDA_COPY_H2D = 1,
	CUDA_COPY_D2H = 2,
	CUDA_COPY_D2D = 3,
	CUDA_COPY_DEFAULT = 4,
};

enum cuda_record_type {
	CUDA_RECORD_PROCESS, /* a process made its first CUDA call */
	CUDA_RECORD_EXIT,    /* it ended, or became another program by exec */
	CUDA_RECORD_ALLOCATE,
	CUDA_RECORD_FREE,
	CUDA_RECORD_KERNEL, /* a launch handle now stands for a host function */
	CUDA_RECORD_COPY,
	CUDA_RECORD_LAUNCH,
};

/* Times are CLOCK_MONOTONIC nanoseconds. A process is (tgid, since_ns): since_ns is when it made
 * its first CUDA call, so neither a reused pid nor an exec continues the account of another
 * program. */
struct cuda_record {
	__u64 ended_ns;
	__u64 duration_ns;
	__u64 since_ns;
	__u32 tgid;
	__u16 type;	/* enum cuda_record_type */
	__u16 function; /* enum cuda_function */
	__s32 result;	/* cudaError_t */
	__u32 reserved;
};
WIRE_SIZE(struct cuda_record, 40);

/* Allocations ring. */
struct cuda_allocation_record { /* CUDA_RECORD_ALLOCATE and, without bytes, CUDA_RECORD_FREE */
	struct cuda_record head;
	__u64 address;
	__u64 bytes;
};
WIRE_SIZE(struct cuda_allocation_record, 56);

struct cuda_kernel_record {
	struct cuda_record head;
	__u64 handle;
	__u64 host_function;
};
WIRE_SIZE(struct cuda_kernel_record, 56);

#define CUDA_COMM_BYTES	  16
#define CUDA_CGROUP_BYTES 96 /* "cri-containerd-<64 digits>.scope" and a NUL */

struct cuda_process_record {
	struct cuda_record head;
	__u64 start_boottime_ns; /* CLOCK_BOOTTIME, as field 22 of /proc/PID/stat */
	__u64 code_start;	 /* where the executable's code is mapped */
	__u64 code_end;
	__u64 exe_inode;
	__u64 exe_bytes;
	__u32 exe_device; /* MAJOR << 20 | MINOR */
	__u32 exe_generation;
	char comm[CUDA_COMM_BYTES]; /* of the process, not of the calling thread */
	char cgroup[CUDA_CGROUP_BYTES];
	char cgroup_parent[CUDA_CGROUP_BYTES];
};
WIRE_SIZE(struct cuda_process_record, 40 + 48 + 16 + 2 * 96);

struct cuda_exit_record {
	struct cuda_record head;
};
WIRE_SIZE(struct cuda_exit_record, 40);

/* Calls ring. */
struct cuda_copy_record {
	struct cuda_record head;
	__u64 destination;
	__u64 source;
	__u64 bytes;
	__u32 kind; /* as the caller said: any number */
	__u32 is_async;
};
WIRE_SIZE(struct cuda_copy_record, 72);

struct cuda_launch_record {
	struct cuda_record head;
	__u64 kernel; /* host function or launch handle */
	__u32 grid[3];
	__u32 block[3];
};
WIRE_SIZE(struct cuda_launch_record, 72);

#endif
