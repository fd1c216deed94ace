/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The functions of the CUDA probe: the meaning of each, and where its arguments are. To trace one
 * more, add its line. */
#ifndef GPUSNOOP_CUDA_FUNCTIONS_H
#define GPUSNOOP_CUDA_FUNCTIONS_H

#include "bpf/cuda/cuda.h"
#include "bpf/host_time/host_time.h"

/* The operation of a function decides how its arguments are read, and its class decides how its
 * record is sent. Positions count from 1, in the order of the C declaration; each operation's line
 * names the positions that it needs. */
#define CUDA_OPERATIONS(OPERATION)                                                                 \
	OPERATION(ALLOCATE, MEMORY)	    /* ADDRESS to put the address, BYTES [x COUNT] */      \
	OPERATION(ALLOCATE_PITCHED, MEMORY) /* the same; BYTES: pointer to the chosen pitch */     \
	OPERATION(ALLOCATE_3D, MEMORY)	    /* ADDRESS: cudaPitchedPtr *, cudaExtent by value */   \
	OPERATION(FREE, MEMORY)		    /* ADDRESS */                                          \
	OPERATION(MAP, MEMORY)		    /* ADDRESS, BYTES, SOURCE: the handle */               \
	OPERATION(UNMAP, MEMORY)	    /* ADDRESS, BYTES */                                   \
	OPERATION(HANDLE, MEMORY)	/* ADDRESS to put one more reference to a memory handle */ \
	OPERATION(RESET, MEMORY)	/* of the current device */                                \
	OPERATION(RESET_DEVICE, MEMORY) /* ADDRESS: device */                                      \
	OPERATION(DESTROY_CONTEXT, MEMORY) /* ADDRESS: context */                                  \
	OPERATION(COPY, CALL)	 /* ADDRESS to, SOURCE: from, BYTES [x COUNT], KIND or variant */  \
	OPERATION(COPY_3D, CALL) /* ADDRESS: cudaMemcpy3DParms * */                                \
	OPERATION(COPY_3D_PEER, CALL)	/* ADDRESS: cudaMemcpy3DPeerParms * */                     \
	OPERATION(COPY_DRIVER_2D, CALL) /* ADDRESS: CUDA_MEMCPY2D * */                             \
	OPERATION(COPY_DRIVER_3D, CALL) /* ADDRESS: CUDA_MEMCPY3D * */                             \
	OPERATION(SET, CALL)		/* memset: ADDRESS, (BYTES [x COUNT]) << variant */        \
	OPERATION(SET_3D, CALL)		/* cudaPitchedPtr by value, cudaExtent by value */         \
	OPERATION(LAUNCH, CALL) /* ADDRESS: kernel; two dim3 from 2 on, 7: shared, 8: stream */    \
	OPERATION(LAUNCH_CONFIG, CALL) /* ADDRESS: kernel, SOURCE: configuration */                \
	OPERATION(LAUNCH_DRIVER,                                                                   \
		  CALL)		      /* ADDRESS: kernel; sizes from 2 on, 8: shared, 9: stream */ \
	OPERATION(LAUNCH_GRAPH, CALL) /* STREAM */                                                 \
	OPERATION(WAIT_STREAM, CALL)  /* STREAM */                                                 \
	OPERATION(WAIT_EVENT, STATE)  /* nothing is sent of it */                                  \
	OPERATION(WAIT_DEVICE, CALL)                                                               \
	OPERATION(USE_DEVICE, STATE)   /* ADDRESS: ordinal */                                      \
	OPERATION(USE_CONTEXT, STATE)  /* ADDRESS: context */                                      \
	OPERATION(PUSH_CONTEXT, STATE) /* ADDRESS: context */                                      \
	OPERATION(POP_CONTEXT, STATE)                                                              \
	OPERATION(CREATE_CONTEXT,                                                                  \
		  STATE) /* ADDRESS to put it, SOURCE: device. It becomes current. */              \
	OPERATION(PRIMARY_CONTEXT, STATE) /* ADDRESS to put it, SOURCE: device */                  \
	OPERATION(GET_KERNEL, STATE)   /* ADDRESS to put a handle, SOURCE: what it stands for */   \
	OPERATION(GET_FUNCTION, STATE) /* ADDRESS to put a handle, SOURCE: the kernel's name */    \
	OPERATION(REGISTER, STATE)     /* 2: host function, 4: the kernel's name */                \
	OPERATION(ELAPSED, CALL)       /* ADDRESS to put a float: milliseconds */                  \
	OPERATION(SUBSCRIBE, PROFILER)                                                             \
	OPERATION(UNSUBSCRIBE, PROFILER)                                                           \
	OPERATION(ENABLE_ACTIVITY, PROFILER)  /* ADDRESS: the kind of activity */                  \
	OPERATION(DISABLE_ACTIVITY, PROFILER) /* ADDRESS: the kind of activity */                  \
	OPERATION(FINALIZE_PROFILER, PROFILER)

/* MEMORY: records go to the ring of allocations and are never throttled. CALL: records go to the
 * ring of calls, in which each process has a budget. A failed STATE or PROFILER goes there, too.
 * PROFILER: a call of CUPTI, which may be inside another call: cuda/profilers.bpf.h. */
enum cuda_operation_class {
	CUDA_CLASS_MEMORY,
	CUDA_CLASS_CALL,
	CUDA_CLASS_STATE,
	CUDA_CLASS_PROFILER
};

/* Where an argument is, as four bits of the attach cookie; 0: no argument. Arguments beyond the
 * registers are read only when a position says so: ON_STACK says it for an operation whose
 * positions are fixed. Structures by value are words on the stack on x86_64; on arm64 the caller
 * passes their address. */
#define ADDRESS(position) ((position) * (1ULL << 32))
#define SOURCE(position)  ((position) * (1ULL << 36))
#define BYTES(position)	  ((position) * (1ULL << 40))
#define COUNT(position)	  ((position) * (1ULL << 44))
#define STREAM(position)  ((position) * (1ULL << 48))
#define KIND(position)	  ((position) * (1ULL << 52))
#define ASYNC		  (1ULL << 56)
#define ON_STACK	  (1ULL << 57)
/* Set when attaching: the end is seen at the instructions that leave the function, not by a return
 * probe. */
#define CUDA_EXITS     (1ULL << 59)
#define CUDA_OF_DRIVER (1ULL << 60)

/* Symbol, the name that errors are shown under, operation, variant, positions. The _ptsz and _ptds
 * symbols are what programs call that were compiled with per-thread default streams. */
#define CUDA_RUNTIME_FUNCTIONS(F)                                                                  \
	F(cudaMalloc, cudaMalloc, ALLOCATE, MEMORY_device, ADDRESS(1) | BYTES(2))                  \
	F(cudaMallocManaged, cudaMallocManaged, ALLOCATE, MEMORY_managed, ADDRESS(1) | BYTES(2))   \
	F(cudaMallocHost, cudaMallocHost, ALLOCATE, MEMORY_pinned_host, ADDRESS(1) | BYTES(2))     \
	F(cudaHostAlloc, cudaHostAlloc, ALLOCATE, MEMORY_pinned_host, ADDRESS(1) | BYTES(2))       \
	F(cudaMallocPitch, cudaMallocPitch, ALLOCATE_PITCHED, MEMORY_device,                       \
	  ADDRESS(1) | BYTES(2) | COUNT(4))                                                        \
	F(cudaMalloc3D, cudaMalloc3D, ALLOCATE_3D, MEMORY_device, ADDRESS(1) | ON_STACK)           \
	F(cudaMallocAsync, cudaMallocAsync, ALLOCATE, MEMORY_async,                                \
	  ADDRESS(1) | BYTES(2) | STREAM(3))                                                       \
	F(cudaMallocAsync_ptsz, cudaMallocAsync, ALLOCATE, MEMORY_async,                           \
	  ADDRESS(1) | BYTES(2) | STREAM(3))                                                       \
	F(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync, ALLOCATE, MEMORY_async,                \
	  ADDRESS(1) | BYTES(2) | STREAM(4))                                                       \
	F(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync, ALLOCATE, MEMORY_async,           \
	  ADDRESS(1) | BYTES(2) | STREAM(4))                                                       \
	F(cudaFree, cudaFree, FREE, MEMORY_device, ADDRESS(1))                                     \
	F(cudaFreeHost, cudaFreeHost, FREE, MEMORY_pinned_host, ADDRESS(1))                        \
	F(cudaFreeAsync, cudaFreeAsync, FREE, MEMORY_async, ADDRESS(1) | STREAM(2))                \
	F(cudaFreeAsync_ptsz, cudaFreeAsync, FREE, MEMORY_async, ADDRESS(1) | STREAM(2))           \
	F(cudaMemcpy, cudaMemcpy, COPY, 0, ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(4))            \
	F(cudaMemcpy_ptds, cudaMemcpy, COPY, 0, ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(4))       \
	F(cudaMemcpyAsync, cudaMemcpyAsync, COPY, 0,                                               \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(4) | STREAM(5) | ASYNC)                         \
	F(cudaMemcpyAsync_ptsz, cudaMemcpyAsync, COPY, 0,                                          \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(4) | STREAM(5) | ASYNC)                         \
	F(cudaMemcpy2D, cudaMemcpy2D, COPY, 0,                                                     \
	  ADDRESS(1) | SOURCE(3) | BYTES(5) | COUNT(6) | KIND(7) | ON_STACK)                       \
	F(cudaMemcpy2D_ptds, cudaMemcpy2D, COPY, 0,                                                \
	  ADDRESS(1) | SOURCE(3) | BYTES(5) | COUNT(6) | KIND(7) | ON_STACK)                       \
	F(cudaMemcpy2DAsync, cudaMemcpy2DAsync, COPY, 0,                                           \
	  ADDRESS(1) | SOURCE(3) | BYTES(5) | COUNT(6) | KIND(7) | ON_STACK | STREAM(8) | ASYNC)   \
	F(cudaMemcpy2DAsync_ptsz, cudaMemcpy2DAsync, COPY, 0,                                      \
	  ADDRESS(1) | SOURCE(3) | BYTES(5) | COUNT(6) | KIND(7) | ON_STACK | STREAM(8) | ASYNC)   \
	F(cudaMemcpy3D, cudaMemcpy3D, COPY_3D, 0, ADDRESS(1))                                      \
	F(cudaMemcpy3D_ptds, cudaMemcpy3D, COPY_3D, 0, ADDRESS(1))                                 \
	F(cudaMemcpy3DAsync, cudaMemcpy3DAsync, COPY_3D, 0, ADDRESS(1) | STREAM(2) | ASYNC)        \
	F(cudaMemcpy3DAsync_ptsz, cudaMemcpy3DAsync, COPY_3D, 0, ADDRESS(1) | STREAM(2) | ASYNC)   \
	F(cudaMemcpyPeer, cudaMemcpyPeer, COPY, COPY_D2D, ADDRESS(1) | SOURCE(3) | BYTES(5))       \
	F(cudaMemcpyPeerAsync, cudaMemcpyPeerAsync, COPY, COPY_D2D,                                \
	  ADDRESS(1) | SOURCE(3) | BYTES(5) | STREAM(6) | ASYNC)                                   \
	F(cudaMemcpy3DPeer, cudaMemcpy3DPeer, COPY_3D_PEER, COPY_D2D, ADDRESS(1))                  \
	F(cudaMemcpy3DPeer_ptds, cudaMemcpy3DPeer, COPY_3D_PEER, COPY_D2D, ADDRESS(1))             \
	F(cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync, COPY_3D_PEER, COPY_D2D,                    \
	  ADDRESS(1) | STREAM(2) | ASYNC)                                                          \
	F(cudaMemcpy3DPeerAsync_ptsz, cudaMemcpy3DPeerAsync, COPY_3D_PEER, COPY_D2D,               \
	  ADDRESS(1) | STREAM(2) | ASYNC)                                                          \
	F(cudaMemcpyToSymbol, cudaMemcpyToSymbol, COPY, 0,                                         \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(5))                                             \
	F(cudaMemcpyToSymbol_ptds, cudaMemcpyToSymbol, COPY, 0,                                    \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(5))                                             \
	F(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync, COPY, 0,                               \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(5) | STREAM(6) | ASYNC)                         \
	F(cudaMemcpyToSymbolAsync_ptsz, cudaMemcpyToSymbolAsync, COPY, 0,                          \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(5) | STREAM(6) | ASYNC)                         \
	F(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol, COPY, 0,                                     \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(5))                                             \
	F(cudaMemcpyFromSymbol_ptds, cudaMemcpyFromSymbol, COPY, 0,                                \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(5))                                             \
	F(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync, COPY, 0,                           \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(5) | STREAM(6) | ASYNC)                         \
	F(cudaMemcpyFromSymbolAsync_ptsz, cudaMemcpyFromSymbolAsync, COPY, 0,                      \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(5) | STREAM(6) | ASYNC)                         \
	F(cudaMemset, cudaMemset, SET, 0, ADDRESS(1) | BYTES(3))                                   \
	F(cudaMemset_ptds, cudaMemset, SET, 0, ADDRESS(1) | BYTES(3))                              \
	F(cudaMemsetAsync, cudaMemsetAsync, SET, 0, ADDRESS(1) | BYTES(3) | STREAM(4) | ASYNC)     \
	F(cudaMemsetAsync_ptsz, cudaMemsetAsync, SET, 0,                                           \
	  ADDRESS(1) | BYTES(3) | STREAM(4) | ASYNC)                                               \
	F(cudaMemset2D, cudaMemset2D, SET, 0, ADDRESS(1) | BYTES(4) | COUNT(5))                    \
	F(cudaMemset2D_ptds, cudaMemset2D, SET, 0, ADDRESS(1) | BYTES(4) | COUNT(5))               \
	F(cudaMemset2DAsync, cudaMemset2DAsync, SET, 0,                                            \
	  ADDRESS(1) | BYTES(4) | COUNT(5) | STREAM(6) | ASYNC)                                    \
	F(cudaMemset2DAsync_ptsz, cudaMemset2DAsync, SET, 0,                                       \
	  ADDRESS(1) | BYTES(4) | COUNT(5) | STREAM(6) | ASYNC)                                    \
	F(cudaMemset3D, cudaMemset3D, SET_3D, 0, ON_STACK)                                         \
	F(cudaMemset3D_ptds, cudaMemset3D, SET_3D, 0, ON_STACK)                                    \
	F(cudaMemset3DAsync, cudaMemset3DAsync, SET_3D, 0, ON_STACK | ASYNC)                       \
	F(cudaMemset3DAsync_ptsz, cudaMemset3DAsync, SET_3D, 0, ON_STACK | ASYNC)                  \
	F(cudaLaunchKernel, cudaLaunchKernel, LAUNCH, 0, ADDRESS(1))                               \
	F(cudaLaunchKernel_ptsz, cudaLaunchKernel, LAUNCH, 0, ADDRESS(1))                          \
	/* nvcc 13: what <<<>>> compiles to, with a handle that __cudaGetKernel gave */            \
	F(__cudaLaunchKernel, cudaLaunchKernel, LAUNCH, 0, ADDRESS(1))                             \
	F(__cudaLaunchKernel_ptsz, cudaLaunchKernel, LAUNCH, 0, ADDRESS(1))                        \
	F(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel, LAUNCH, 0, ADDRESS(1))         \
	F(cudaLaunchCooperativeKernel_ptsz, cudaLaunchCooperativeKernel, LAUNCH, 0, ADDRESS(1))    \
	F(cudaLaunchKernelExC, cudaLaunchKernelExC, LAUNCH_CONFIG, 0, ADDRESS(2) | SOURCE(1))      \
	F(cudaLaunchKernelExC_ptsz, cudaLaunchKernelExC, LAUNCH_CONFIG, 0, ADDRESS(2) | SOURCE(1)) \
	F(cudaGraphLaunch, cudaGraphLaunch, LAUNCH_GRAPH, 0, STREAM(2))                            \
	F(cudaGraphLaunch_ptsz, cudaGraphLaunch, LAUNCH_GRAPH, 0, STREAM(2))                       \
	F(cudaStreamSynchronize, cudaStreamSynchronize, WAIT_STREAM, 0, STREAM(1))                 \
	F(cudaStreamSynchronize_ptsz, cudaStreamSynchronize, WAIT_STREAM, 0, STREAM(1))            \
	F(cudaDeviceSynchronize, cudaDeviceSynchronize, WAIT_DEVICE, 0, 0)                         \
	F(cudaEventSynchronize, cudaEventSynchronize, WAIT_EVENT, 0, 0)                            \
	F(cudaEventElapsedTime, cudaEventElapsedTime, ELAPSED, 0, ADDRESS(1))                      \
	F(cudaEventElapsedTime_v2, cudaEventElapsedTime, ELAPSED, 0, ADDRESS(1))                   \
	F(cudaSetDevice, cudaSetDevice, USE_DEVICE, 0, ADDRESS(1))                                 \
	F(cudaDeviceReset, cudaDeviceReset, RESET, 0, 0)                                           \
	F(__cudaGetKernel, __cudaGetKernel, GET_KERNEL, 0, ADDRESS(1) | SOURCE(2))                 \
	F(cudaGetKernel, cudaGetKernel, GET_KERNEL, 0, ADDRESS(1) | SOURCE(2))                     \
	F(cudaGetFuncBySymbol, cudaGetFuncBySymbol, GET_KERNEL, 0, ADDRESS(1) | SOURCE(2))         \
	F(__cudaRegisterFunction, __cudaRegisterFunction, REGISTER, 0, ADDRESS(2) | SOURCE(4))

#define CUDA_DRIVER_FUNCTIONS(F)                                                                   \
	F(cuMemAlloc_v2, cuMemAlloc, ALLOCATE, MEMORY_device, ADDRESS(1) | BYTES(2))               \
	F(cuMemAllocPitch_v2, cuMemAllocPitch, ALLOCATE_PITCHED, MEMORY_device,                    \
	  ADDRESS(1) | BYTES(2) | COUNT(4))                                                        \
	F(cuMemAllocManaged, cuMemAllocManaged, ALLOCATE, MEMORY_managed, ADDRESS(1) | BYTES(2))   \
	F(cuMemAllocHost_v2, cuMemAllocHost, ALLOCATE, MEMORY_pinned_host, ADDRESS(1) | BYTES(2))  \
	F(cuMemHostAlloc, cuMemHostAlloc, ALLOCATE, MEMORY_pinned_host, ADDRESS(1) | BYTES(2))     \
	F(cuMemAllocAsync, cuMemAllocAsync, ALLOCATE, MEMORY_async,                                \
	  ADDRESS(1) | BYTES(2) | STREAM(3))                                                       \
	F(cuMemAllocAsync_ptsz, cuMemAllocAsync, ALLOCATE, MEMORY_async,                           \
	  ADDRESS(1) | BYTES(2) | STREAM(3))                                                       \
	F(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, ALLOCATE, MEMORY_async,                \
	  ADDRESS(1) | BYTES(2) | STREAM(4))                                                       \
	F(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, ALLOCATE, MEMORY_async,           \
	  ADDRESS(1) | BYTES(2) | STREAM(4))                                                       \
	F(cuMemCreate, cuMemCreate, ALLOCATE, MEMORY_vmm, ADDRESS(1) | BYTES(2))                   \
	F(cuMemFree_v2, cuMemFree, FREE, MEMORY_device, ADDRESS(1))                                \
	F(cuMemFreeHost, cuMemFreeHost, FREE, MEMORY_pinned_host, ADDRESS(1))                      \
	F(cuMemFreeAsync, cuMemFreeAsync, FREE, MEMORY_async, ADDRESS(1) | STREAM(2))              \
	F(cuMemFreeAsync_ptsz, cuMemFreeAsync, FREE, MEMORY_async, ADDRESS(1) | STREAM(2))         \
	F(cuMemRelease, cuMemRelease, FREE, MEMORY_vmm, ADDRESS(1))                                \
	F(cuMemMap, cuMemMap, MAP, MEMORY_vmm, ADDRESS(1) | BYTES(2) | SOURCE(4))                  \
	F(cuMemUnmap, cuMemUnmap, UNMAP, MEMORY_vmm, ADDRESS(1) | BYTES(2))                        \
	F(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, HANDLE, MEMORY_vmm,            \
	  ADDRESS(1))                                                                              \
	F(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, HANDLE, MEMORY_vmm,      \
	  ADDRESS(1))                                                                              \
	F(cuMemcpy, cuMemcpy, COPY, COPY_DEFAULT, ADDRESS(1) | SOURCE(2) | BYTES(3))               \
	F(cuMemcpy_ptds, cuMemcpy, COPY, COPY_DEFAULT, ADDRESS(1) | SOURCE(2) | BYTES(3))          \
	F(cuMemcpyAsync, cuMemcpyAsync, COPY, COPY_DEFAULT,                                        \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | STREAM(4) | ASYNC)                                   \
	F(cuMemcpyAsync_ptsz, cuMemcpyAsync, COPY, COPY_DEFAULT,                                   \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | STREAM(4) | ASYNC)                                   \
	F(cuMemcpyHtoD_v2, cuMemcpyHtoD, COPY, COPY_H2D, ADDRESS(1) | SOURCE(2) | BYTES(3))        \
	F(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD, COPY, COPY_H2D, ADDRESS(1) | SOURCE(2) | BYTES(3))   \
	F(cuMemcpyDtoH_v2, cuMemcpyDtoH, COPY, COPY_D2H, ADDRESS(1) | SOURCE(2) | BYTES(3))        \
	F(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH, COPY, COPY_D2H, ADDRESS(1) | SOURCE(2) | BYTES(3))   \
	F(cuMemcpyDtoD_v2, cuMemcpyDtoD, COPY, COPY_D2D, ADDRESS(1) | SOURCE(2) | BYTES(3))        \
	F(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD, COPY, COPY_D2D, ADDRESS(1) | SOURCE(2) | BYTES(3))   \
	F(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, COPY, COPY_H2D,                                 \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | STREAM(4) | ASYNC)                                   \
	F(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync, COPY, COPY_H2D,                            \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | STREAM(4) | ASYNC)                                   \
	F(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, COPY, COPY_D2H,                                 \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | STREAM(4) | ASYNC)                                   \
	F(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync, COPY, COPY_D2H,                            \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | STREAM(4) | ASYNC)                                   \
	F(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, COPY, COPY_D2D,                                 \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | STREAM(4) | ASYNC)                                   \
	F(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync, COPY, COPY_D2D,                            \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | STREAM(4) | ASYNC)                                   \
	F(cuMemcpy2D_v2, cuMemcpy2D, COPY_DRIVER_2D, 0, ADDRESS(1))                                \
	F(cuMemcpy2D_v2_ptds, cuMemcpy2D, COPY_DRIVER_2D, 0, ADDRESS(1))                           \
	F(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, COPY_DRIVER_2D, 0, ADDRESS(1))              \
	F(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned, COPY_DRIVER_2D, 0, ADDRESS(1))         \
	F(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, COPY_DRIVER_2D, 0, ADDRESS(1) | STREAM(2) | ASYNC)  \
	F(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync, COPY_DRIVER_2D, 0,                             \
	  ADDRESS(1) | STREAM(2) | ASYNC)                                                          \
	F(cuMemcpy3D_v2, cuMemcpy3D, COPY_DRIVER_3D, 0, ADDRESS(1))                                \
	F(cuMemcpy3D_v2_ptds, cuMemcpy3D, COPY_DRIVER_3D, 0, ADDRESS(1))                           \
	F(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, COPY_DRIVER_3D, 0, ADDRESS(1) | STREAM(2) | ASYNC)  \
	F(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync, COPY_DRIVER_3D, 0,                             \
	  ADDRESS(1) | STREAM(2) | ASYNC)                                                          \
	F(cuMemcpyPeer, cuMemcpyPeer, COPY, COPY_D2D, ADDRESS(1) | SOURCE(3) | BYTES(5))           \
	F(cuMemcpyPeer_ptds, cuMemcpyPeer, COPY, COPY_D2D, ADDRESS(1) | SOURCE(3) | BYTES(5))      \
	F(cuMemcpyPeerAsync, cuMemcpyPeerAsync, COPY, COPY_D2D,                                    \
	  ADDRESS(1) | SOURCE(3) | BYTES(5) | STREAM(6) | ASYNC)                                   \
	F(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync, COPY, COPY_D2D,                               \
	  ADDRESS(1) | SOURCE(3) | BYTES(5) | STREAM(6) | ASYNC)                                   \
	F(cuMemsetD8_v2, cuMemsetD8, SET, 0, ADDRESS(1) | BYTES(3))                                \
	F(cuMemsetD8_v2_ptds, cuMemsetD8, SET, 0, ADDRESS(1) | BYTES(3))                           \
	F(cuMemsetD16_v2, cuMemsetD16, SET, 1, ADDRESS(1) | BYTES(3))                              \
	F(cuMemsetD16_v2_ptds, cuMemsetD16, SET, 1, ADDRESS(1) | BYTES(3))                         \
	F(cuMemsetD32_v2, cuMemsetD32, SET, 2, ADDRESS(1) | BYTES(3))                              \
	F(cuMemsetD32_v2_ptds, cuMemsetD32, SET, 2, ADDRESS(1) | BYTES(3))                         \
	F(cuMemsetD2D8_v2, cuMemsetD2D8, SET, 0, ADDRESS(1) | BYTES(4) | COUNT(5))                 \
	F(cuMemsetD2D8_v2_ptds, cuMemsetD2D8, SET, 0, ADDRESS(1) | BYTES(4) | COUNT(5))            \
	F(cuMemsetD2D16_v2, cuMemsetD2D16, SET, 1, ADDRESS(1) | BYTES(4) | COUNT(5))               \
	F(cuMemsetD2D16_v2_ptds, cuMemsetD2D16, SET, 1, ADDRESS(1) | BYTES(4) | COUNT(5))          \
	F(cuMemsetD2D32_v2, cuMemsetD2D32, SET, 2, ADDRESS(1) | BYTES(4) | COUNT(5))               \
	F(cuMemsetD2D32_v2_ptds, cuMemsetD2D32, SET, 2, ADDRESS(1) | BYTES(4) | COUNT(5))          \
	F(cuMemsetD8Async, cuMemsetD8Async, SET, 0, ADDRESS(1) | BYTES(3) | STREAM(4) | ASYNC)     \
	F(cuMemsetD8Async_ptsz, cuMemsetD8Async, SET, 0,                                           \
	  ADDRESS(1) | BYTES(3) | STREAM(4) | ASYNC)                                               \
	F(cuMemsetD16Async, cuMemsetD16Async, SET, 1, ADDRESS(1) | BYTES(3) | STREAM(4) | ASYNC)   \
	F(cuMemsetD16Async_ptsz, cuMemsetD16Async, SET, 1,                                         \
	  ADDRESS(1) | BYTES(3) | STREAM(4) | ASYNC)                                               \
	F(cuMemsetD32Async, cuMemsetD32Async, SET, 2, ADDRESS(1) | BYTES(3) | STREAM(4) | ASYNC)   \
	F(cuMemsetD32Async_ptsz, cuMemsetD32Async, SET, 2,                                         \
	  ADDRESS(1) | BYTES(3) | STREAM(4) | ASYNC)                                               \
	F(cuMemsetD2D8Async, cuMemsetD2D8Async, SET, 0,                                            \
	  ADDRESS(1) | BYTES(4) | COUNT(5) | STREAM(6) | ASYNC)                                    \
	F(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async, SET, 0,                                       \
	  ADDRESS(1) | BYTES(4) | COUNT(5) | STREAM(6) | ASYNC)                                    \
	F(cuMemsetD2D16Async, cuMemsetD2D16Async, SET, 1,                                          \
	  ADDRESS(1) | BYTES(4) | COUNT(5) | STREAM(6) | ASYNC)                                    \
	F(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async, SET, 1,                                     \
	  ADDRESS(1) | BYTES(4) | COUNT(5) | STREAM(6) | ASYNC)                                    \
	F(cuMemsetD2D32Async, cuMemsetD2D32Async, SET, 2,                                          \
	  ADDRESS(1) | BYTES(4) | COUNT(5) | STREAM(6) | ASYNC)                                    \
	F(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async, SET, 2,                                     \
	  ADDRESS(1) | BYTES(4) | COUNT(5) | STREAM(6) | ASYNC)                                    \
	F(cuLaunchKernel, cuLaunchKernel, LAUNCH_DRIVER, 0, ADDRESS(1) | ON_STACK)                 \
	F(cuLaunchKernel_ptsz, cuLaunchKernel, LAUNCH_DRIVER, 0, ADDRESS(1) | ON_STACK)            \
	F(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, LAUNCH_DRIVER, 0,                  \
	  ADDRESS(1) | ON_STACK)                                                                   \
	F(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, LAUNCH_DRIVER, 0,             \
	  ADDRESS(1) | ON_STACK)                                                                   \
	F(cuLaunchKernelEx, cuLaunchKernelEx, LAUNCH_CONFIG, 0, ADDRESS(2) | SOURCE(1))            \
	F(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, LAUNCH_CONFIG, 0, ADDRESS(2) | SOURCE(1))       \
	F(cuGraphLaunch, cuGraphLaunch, LAUNCH_GRAPH, 0, STREAM(2))                                \
	F(cuGraphLaunch_ptsz, cuGraphLaunch, LAUNCH_GRAPH, 0, STREAM(2))                           \
	F(cuStreamSynchronize, cuStreamSynchronize, WAIT_STREAM, 0, STREAM(1))                     \
	F(cuStreamSynchronize_ptsz, cuStreamSynchronize, WAIT_STREAM, 0, STREAM(1))                \
	F(cuCtxSynchronize, cuCtxSynchronize, WAIT_DEVICE, 0, 0)                                   \
	F(cuEventSynchronize, cuEventSynchronize, WAIT_EVENT, 0, 0)                                \
	F(cuEventElapsedTime, cuEventElapsedTime, ELAPSED, 0, ADDRESS(1))                          \
	F(cuEventElapsedTime_v2, cuEventElapsedTime, ELAPSED, 0, ADDRESS(1))                       \
	F(cuCtxSetCurrent, cuCtxSetCurrent, USE_CONTEXT, 0, ADDRESS(1))                            \
	F(cuCtxPushCurrent_v2, cuCtxPushCurrent, PUSH_CONTEXT, 0, ADDRESS(1))                      \
	F(cuCtxPopCurrent_v2, cuCtxPopCurrent, POP_CONTEXT, 0, 0)                                  \
	F(cuCtxCreate_v2, cuCtxCreate, CREATE_CONTEXT, 0, ADDRESS(1) | SOURCE(3))                  \
	F(cuCtxCreate_v3, cuCtxCreate, CREATE_CONTEXT, 0, ADDRESS(1) | SOURCE(5))                  \
	F(cuCtxCreate_v4, cuCtxCreate, CREATE_CONTEXT, 0, ADDRESS(1) | SOURCE(4))                  \
	F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, PRIMARY_CONTEXT, 0,                  \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, RESET_DEVICE, 0, ADDRESS(1))        \
	F(cuCtxDestroy_v2, cuCtxDestroy, DESTROY_CONTEXT, 0, ADDRESS(1))                           \
	F(cuModuleGetFunction, cuModuleGetFunction, GET_FUNCTION, 0, ADDRESS(1) | SOURCE(3))       \
	F(cuLibraryGetKernel, cuLibraryGetKernel, GET_FUNCTION, 0, ADDRESS(1) | SOURCE(3))         \
	F(cuKernelGetFunction, cuKernelGetFunction, GET_KERNEL, 0, ADDRESS(1) | SOURCE(2))

/* Of libcupti, by which profilers attach to the process that they run in. */
#define CUDA_PROFILER_FUNCTIONS(F)                                                                 \
	F(cuptiSubscribe, cuptiSubscribe, SUBSCRIBE, 0, 0)                                         \
	F(cuptiSubscribe_v2, cuptiSubscribe, SUBSCRIBE, 0, 0)                                      \
	F(cuptiUnsubscribe, cuptiUnsubscribe, UNSUBSCRIBE, 0, 0)                                   \
	F(cuptiActivityEnable, cuptiActivityEnable, ENABLE_ACTIVITY, 0, ADDRESS(1))                \
	F(cuptiActivityDisable, cuptiActivityDisable, DISABLE_ACTIVITY, 0, ADDRESS(1))             \
	F(cuptiFinalize, cuptiFinalize, FINALIZE_PROFILER, 0, 0)

enum cuda_operation {
#define OPERATION(name, class) CUDA_##name,
	CUDA_OPERATIONS(OPERATION)
#undef OPERATION
	    CUDA_OPERATION_COUNT
};

#define CUDA_IS_LAUNCH(operation)                                                                  \
	((operation) == CUDA_LAUNCH || (operation) == CUDA_LAUNCH_CONFIG ||                        \
	 (operation) == CUDA_LAUNCH_DRIVER || (operation) == CUDA_LAUNCH_GRAPH ||                  \
	 (operation) == CUDA_SET || (operation) == CUDA_SET_3D)
#define CUDA_IS_COPY(operation) ((operation) >= CUDA_COPY && (operation) <= CUDA_COPY_DRIVER_3D)
#define CUDA_IS_WAIT(operation)                                                                    \
	((operation) == CUDA_WAIT_STREAM || (operation) == CUDA_WAIT_EVENT ||                      \
	 (operation) == CUDA_WAIT_DEVICE)
#define CUDA_IS_MEMORY(operation) ((operation) <= CUDA_DESTROY_CONTEXT)

/* What a thread does inside of the function. */
#define CUDA_PHASE(operation, positions)                                                           \
	(CUDA_IS_LAUNCH(operation)   ? HOST_launch                                                 \
	 : CUDA_IS_COPY(operation)   ? ((positions) & ASYNC ? HOST_copy : HOST_wait)               \
	 : CUDA_IS_WAIT(operation)   ? HOST_wait                                                   \
	 : CUDA_IS_MEMORY(operation) ? HOST_memory                                                 \
				     : HOST_other)

/* The attach cookie: function, operation, variant, positions, phase. */
#define CUDA_COOKIE(function, operation, variant, positions)                                       \
	((function) + (operation) * (1ULL << 16) + (variant) * (1ULL << 24) + (positions) +        \
	 CUDA_PHASE(operation, positions) * (1ULL << 61))
#define CUDA_COOKIE_FUNCTION(cookie)	((__u16)(cookie))
#define CUDA_COOKIE_OPERATION(cookie)	((__u8)((cookie) >> 16))
#define CUDA_COOKIE_VARIANT(cookie)	((__u8)((cookie) >> 24))
#define CUDA_COOKIE_PHASE(cookie)	((__u8)((cookie) >> 61)) /* enum host_phase */
#define CUDA_COOKIE_SLOT(cookie, field) (((cookie) >> (field)) & 15)

enum cuda_cookie_field {
	CUDA_ADDRESS = 32,
	CUDA_SOURCE = 36,
	CUDA_BYTES = 40,
	CUDA_COUNT = 44,
	CUDA_STREAM = 48,
	CUDA_KIND = 52,
};

#endif
