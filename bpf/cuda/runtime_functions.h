/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The functions of the CUDA runtime that are traced, as bpf/cuda/functions.h explains. */
#ifndef GPUSNOOP_CUDA_RUNTIME_FUNCTIONS_H
#define GPUSNOOP_CUDA_RUNTIME_FUNCTIONS_H

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
	F(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync, ALLOCATE_FROM_POOL, MEMORY_async,      \
	  ADDRESS(1) | BYTES(2) | SOURCE(3) | STREAM(4))                                           \
	F(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync, ALLOCATE_FROM_POOL, MEMORY_async, \
	  ADDRESS(1) | BYTES(2) | SOURCE(3) | STREAM(4))                                           \
	F(cudaMemPoolCreate, cudaMemPoolCreate, GET_POOL, CUDA_POOL_OF_PROPERTIES,                 \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cudaMemPoolDestroy, cudaMemPoolDestroy, DESTROY_POOL, 0, ADDRESS(1))                     \
	F(cudaDeviceGetDefaultMemPool, cudaDeviceGetDefaultMemPool, GET_POOL, CUDA_POOL_OF_DEVICE, \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cudaDeviceGetMemPool, cudaDeviceGetMemPool, GET_POOL, CUDA_POOL_OF_DEVICE,               \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cudaMemGetDefaultMemPool, cudaMemGetDefaultMemPool, GET_POOL, CUDA_POOL_OF_LOCATION,     \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cudaMemGetMemPool, cudaMemGetMemPool, GET_POOL, CUDA_POOL_OF_LOCATION,                   \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cudaHostRegister, cudaHostRegister, ALLOCATE, MEMORY_pinned_host, SOURCE(1) | BYTES(2))  \
	F(cudaHostUnregister, cudaHostUnregister, FREE, MEMORY_pinned_host, ADDRESS(1))            \
	F(cudaStreamCreate, cudaStreamCreate, MAKE_STREAM, 0, ADDRESS(1))                          \
	F(cudaStreamCreateWithFlags, cudaStreamCreateWithFlags, MAKE_STREAM, 0, ADDRESS(1))        \
	F(cudaStreamCreateWithPriority, cudaStreamCreateWithPriority, MAKE_STREAM, 0, ADDRESS(1))  \
	F(cudaExecutionCtxStreamCreate, cudaExecutionCtxStreamCreate, MAKE_STREAM,                 \
	  CUDA_STREAM_OF_CONTEXT, ADDRESS(1))                                                      \
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
	F(cudaMemcpyBatchAsync, cudaMemcpyBatchAsync, COPY, CUDA_BATCH,                            \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | COUNT(4) | STREAM(8) | ON_STACK | ASYNC)             \
	F(cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync, COPY, CUDA_BATCH_3D,                     \
	  ADDRESS(2) | COUNT(1) | STREAM(4) | ASYNC)                                               \
	F(cudaMemcpyBatchAsync_ptsz, cudaMemcpyBatchAsync, COPY, CUDA_BATCH,                       \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | COUNT(4) | STREAM(8) | ON_STACK | ASYNC)             \
	F(cudaMemcpy3DBatchAsync_ptsz, cudaMemcpy3DBatchAsync, COPY, CUDA_BATCH_3D,                \
	  ADDRESS(2) | COUNT(1) | STREAM(4) | ASYNC)                                               \
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
	F(cudaMemset3DAsync, cudaMemset3DAsync, SET_3D, 0, STREAM(2) | ON_STACK | ASYNC)           \
	F(cudaMemset3DAsync_ptsz, cudaMemset3DAsync, SET_3D, 0, STREAM(2) | ON_STACK | ASYNC)      \
	F(cudaLaunchKernel, cudaLaunchKernel, LAUNCH, 0, ADDRESS(1))                               \
	F(cudaLaunchKernel_ptsz, cudaLaunchKernel, LAUNCH, 0, ADDRESS(1))                          \
	/* nvcc 13: what <<<>>> compiles to, with a handle that __cudaGetKernel gave */            \
	F(__cudaLaunchKernel, cudaLaunchKernel, LAUNCH, 0, ADDRESS(1))                             \
	F(__cudaLaunchKernel_ptsz, cudaLaunchKernel, LAUNCH, 0, ADDRESS(1))                        \
	F(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel, LAUNCH, 0, ADDRESS(1))         \
	F(cudaLaunchCooperativeKernel_ptsz, cudaLaunchCooperativeKernel, LAUNCH, 0, ADDRESS(1))    \
	F(cudaLaunchKernelExC, cudaLaunchKernelExC, LAUNCH_CONFIG, 0, ADDRESS(2) | SOURCE(1))      \
	F(cudaLaunchKernelExC_ptsz, cudaLaunchKernelExC, LAUNCH_CONFIG, 0, ADDRESS(2) | SOURCE(1)) \
	F(cudaStreamBeginCapture, cudaStreamBeginCapture, BEGIN_CAPTURE, 0, STREAM(1))             \
	F(cudaStreamBeginCapture_ptsz, cudaStreamBeginCapture, BEGIN_CAPTURE, 0, STREAM(1))        \
	F(cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph, BEGIN_CAPTURE, 0,          \
	  STREAM(1) | ADDRESS(2))                                                                  \
	F(cudaStreamBeginCaptureToGraph_ptsz, cudaStreamBeginCaptureToGraph, BEGIN_CAPTURE, 0,     \
	  STREAM(1) | ADDRESS(2))                                                                  \
	F(cudaStreamEndCapture, cudaStreamEndCapture, END_CAPTURE, 0, STREAM(1) | ADDRESS(2))      \
	F(cudaStreamEndCapture_ptsz, cudaStreamEndCapture, END_CAPTURE, 0, STREAM(1) | ADDRESS(2)) \
	F(cudaEventRecord, cudaEventRecord, RECORD_EVENT, 0, ADDRESS(1) | STREAM(2))               \
	F(cudaEventRecord_ptsz, cudaEventRecord, RECORD_EVENT, 0, ADDRESS(1) | STREAM(2))          \
	F(cudaEventRecordWithFlags, cudaEventRecordWithFlags, RECORD_EVENT, 0,                     \
	  ADDRESS(1) | STREAM(2) | BYTES(3))                                                       \
	F(cudaEventRecordWithFlags_ptsz, cudaEventRecordWithFlags, RECORD_EVENT, 0,                \
	  ADDRESS(1) | STREAM(2) | BYTES(3))                                                       \
	F(cudaStreamWaitEvent, cudaStreamWaitEvent, WAIT_EVENT, 0,                                 \
	  ADDRESS(2) | STREAM(1) | BYTES(3))                                                       \
	F(cudaStreamWaitEvent_ptsz, cudaStreamWaitEvent, WAIT_EVENT, 0,                            \
	  ADDRESS(2) | STREAM(1) | BYTES(3))                                                       \
	F(cudaStreamDestroy, cudaStreamDestroy, DESTROY_STREAM, 0, STREAM(1))                      \
	F(cudaGraphCreate, cudaGraphCreate, CREATE_GRAPH, 0, ADDRESS(1))                           \
	F(cudaGraphClone, cudaGraphClone, CLONE_GRAPH, 0, ADDRESS(1) | SOURCE(2))                  \
	F(cudaGraphDestroy, cudaGraphDestroy, DESTROY_GRAPH, 0, ADDRESS(1))                        \
	F(cudaGraphInstantiate, cudaGraphInstantiate, INSTANTIATE, 0, ADDRESS(1) | SOURCE(2))      \
	F(cudaGraphInstantiateWithFlags, cudaGraphInstantiateWithFlags, INSTANTIATE, 0,            \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams, INSTANTIATE, 0,          \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cudaGraphInstantiateWithParams_ptsz, cudaGraphInstantiateWithParams, INSTANTIATE, 0,     \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cudaGraphExecUpdate, cudaGraphExecUpdate, UPDATE_EXECUTABLE, 0, ADDRESS(1) | SOURCE(2))  \
	F(cudaGraphExecDestroy, cudaGraphExecDestroy, DESTROY_EXECUTABLE, 0, ADDRESS(1))           \
	F(cudaGraphAddKernelNode, cudaGraphAddKernelNode, ADD_NODE, CUDA_NODE_OF_KERNEL,           \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cudaGraphAddMemcpyNode, cudaGraphAddMemcpyNode, ADD_NODE, CUDA_NODE_OF_COPY,             \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cudaGraphAddMemcpyNode1D, cudaGraphAddMemcpyNode1D, ADD_NODE, CUDA_NODE_OF_COPY_1D,      \
	  ADDRESS(2) | SOURCE(1) | BYTES(5) | KIND(8) | ON_STACK)                                  \
	F(cudaGraphAddMemcpyNodeToSymbol, cudaGraphAddMemcpyNodeToSymbol, ADD_NODE,                \
	  CUDA_NODE_OF_COPY_1D, ADDRESS(2) | SOURCE(1) | BYTES(5) | KIND(9) | ON_STACK)            \
	F(cudaGraphAddMemcpyNodeFromSymbol, cudaGraphAddMemcpyNodeFromSymbol, ADD_NODE,            \
	  CUDA_NODE_OF_COPY_1D, ADDRESS(2) | SOURCE(1) | BYTES(5) | KIND(9) | ON_STACK)            \
	F(cudaGraphAddMemsetNode, cudaGraphAddMemsetNode, ADD_NODE, CUDA_NODE_OF_SET,              \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cudaGraphAddChildGraphNode, cudaGraphAddChildGraphNode, ADD_NODE, CUDA_NODE_OF_CHILD,    \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cudaGraphAddNode, cudaGraphAddNode, ADD_NODE, CUDA_NODE_OF_ANY,                          \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cudaGraphAddNode_v2, cudaGraphAddNode, ADD_NODE, CUDA_NODE_OF_ANY,                       \
	  ADDRESS(2) | SOURCE(1) | BYTES(6))                                                       \
	F(cudaGraphKernelNodeSetParams, cudaGraphKernelNodeSetParams, SET_NODE,                    \
	  CUDA_NODE_OF_KERNEL, SOURCE(1) | BYTES(2))                                               \
	F(cudaGraphMemcpyNodeSetParams, cudaGraphMemcpyNodeSetParams, SET_NODE, CUDA_NODE_OF_COPY, \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cudaGraphMemcpyNodeSetParams1D, cudaGraphMemcpyNodeSetParams1D, SET_NODE,                \
	  CUDA_NODE_OF_COPY_1D, SOURCE(1) | BYTES(2) | KIND(5))                                    \
	F(cudaGraphMemcpyNodeSetParamsToSymbol, cudaGraphMemcpyNodeSetParamsToSymbol, SET_NODE,    \
	  CUDA_NODE_OF_COPY_1D, SOURCE(1) | BYTES(2) | KIND(6))                                    \
	F(cudaGraphMemcpyNodeSetParamsFromSymbol, cudaGraphMemcpyNodeSetParamsFromSymbol,          \
	  SET_NODE, CUDA_NODE_OF_COPY_1D, SOURCE(1) | BYTES(2) | KIND(6))                          \
	F(cudaGraphMemsetNodeSetParams, cudaGraphMemsetNodeSetParams, SET_NODE, CUDA_NODE_OF_SET,  \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cudaGraphNodeSetParams, cudaGraphNodeSetParams, SET_NODE, CUDA_NODE_OF_ANY,              \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cudaGraphExecKernelNodeSetParams, cudaGraphExecKernelNodeSetParams, SET_EXECUTABLE_NODE, \
	  CUDA_NODE_OF_KERNEL, ADDRESS(1) | SOURCE(2) | BYTES(3))                                  \
	F(cudaGraphExecMemcpyNodeSetParams, cudaGraphExecMemcpyNodeSetParams, SET_EXECUTABLE_NODE, \
	  CUDA_NODE_OF_COPY, ADDRESS(1) | SOURCE(2) | BYTES(3))                                    \
	F(cudaGraphExecMemcpyNodeSetParams1D, cudaGraphExecMemcpyNodeSetParams1D,                  \
	  SET_EXECUTABLE_NODE, CUDA_NODE_OF_COPY_1D, ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(6))  \
	F(cudaGraphExecMemcpyNodeSetParamsToSymbol, cudaGraphExecMemcpyNodeSetParamsToSymbol,      \
	  SET_EXECUTABLE_NODE, CUDA_NODE_OF_COPY_1D,                                               \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(7) | ON_STACK)                                  \
	F(cudaGraphExecMemcpyNodeSetParamsFromSymbol, cudaGraphExecMemcpyNodeSetParamsFromSymbol,  \
	  SET_EXECUTABLE_NODE, CUDA_NODE_OF_COPY_1D,                                               \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | KIND(7) | ON_STACK)                                  \
	F(cudaGraphExecMemsetNodeSetParams, cudaGraphExecMemsetNodeSetParams, SET_EXECUTABLE_NODE, \
	  CUDA_NODE_OF_SET, ADDRESS(1) | SOURCE(2) | BYTES(3))                                     \
	F(cudaGraphExecChildGraphNodeSetParams, cudaGraphExecChildGraphNodeSetParams,              \
	  SET_EXECUTABLE_NODE, CUDA_NODE_OF_CHILD, ADDRESS(1) | SOURCE(2) | BYTES(3))              \
	F(cudaGraphExecNodeSetParams, cudaGraphExecNodeSetParams, SET_EXECUTABLE_NODE,             \
	  CUDA_NODE_OF_ANY, ADDRESS(1) | SOURCE(2) | BYTES(3))                                     \
	F(cudaGraphNodeSetEnabled, cudaGraphNodeSetEnabled, ENABLE_NODE, 0,                        \
	  ADDRESS(1) | SOURCE(2) | KIND(3))                                                        \
	F(cudaGraphDestroyNode, cudaGraphDestroyNode, DESTROY_NODE, 0, SOURCE(1))                  \
	F(cudaGraphChildGraphNodeGetGraph, cudaGraphChildGraphNodeGetGraph, GET_CHILD, 0,          \
	  SOURCE(1))                                                                               \
	F(cudaGraphLaunch, cudaGraphLaunch, LAUNCH_GRAPH, 0, ADDRESS(1) | STREAM(2))               \
	F(cudaGraphLaunch_ptsz, cudaGraphLaunch, LAUNCH_GRAPH, 0, ADDRESS(1) | STREAM(2))          \
	F(cudaStreamSynchronize, cudaStreamSynchronize, WAIT_STREAM, 0, STREAM(1))                 \
	F(cudaStreamSynchronize_ptsz, cudaStreamSynchronize, WAIT_STREAM, 0, STREAM(1))            \
	F(cudaDeviceSynchronize, cudaDeviceSynchronize, WAIT_DEVICE, 0, 0)                         \
	F(cudaEventSynchronize, cudaEventSynchronize, SYNC_EVENT, 0, 0)                            \
	F(cudaEventElapsedTime, cudaEventElapsedTime, ELAPSED, 0, ADDRESS(1))                      \
	F(cudaEventElapsedTime_v2, cudaEventElapsedTime, ELAPSED, 0, ADDRESS(1))                   \
	F(cudaMemGetInfo, cudaMemGetInfo, FREE_MEMORY, 0, ADDRESS(1) | SOURCE(2))                  \
	F(cudaSetDevice, cudaSetDevice, USE_DEVICE, 0, ADDRESS(1))                                 \
	F(cudaDeviceReset, cudaDeviceReset, RESET, 0, 0)                                           \
	F(__cudaGetKernel, __cudaGetKernel, GET_KERNEL, 0, ADDRESS(1) | SOURCE(2))                 \
	F(cudaGetKernel, cudaGetKernel, GET_KERNEL, 0, ADDRESS(1) | SOURCE(2))                     \
	F(cudaGetFuncBySymbol, cudaGetFuncBySymbol, GET_KERNEL, 0, ADDRESS(1) | SOURCE(2))         \
	F(__cudaRegisterFunction, __cudaRegisterFunction, REGISTER, 0, ADDRESS(2) | SOURCE(4))

#endif
