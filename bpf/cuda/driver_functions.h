/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The functions of the CUDA driver that are traced, as bpf/cuda/functions.h explains. */
#ifndef GPUSNOOP_CUDA_DRIVER_FUNCTIONS_H
#define GPUSNOOP_CUDA_DRIVER_FUNCTIONS_H

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
	F(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, ALLOCATE_FROM_POOL, MEMORY_async,      \
	  ADDRESS(1) | BYTES(2) | SOURCE(3) | STREAM(4))                                           \
	F(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, ALLOCATE_FROM_POOL, MEMORY_async, \
	  ADDRESS(1) | BYTES(2) | SOURCE(3) | STREAM(4))                                           \
	F(cuMemPoolCreate, cuMemPoolCreate, GET_POOL, CUDA_POOL_OF_PROPERTIES,                     \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuMemPoolDestroy, cuMemPoolDestroy, DESTROY_POOL, 0, ADDRESS(1))                         \
	F(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, GET_POOL, CUDA_POOL_OF_DEVICE,     \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuDeviceGetMemPool, cuDeviceGetMemPool, GET_POOL, CUDA_POOL_OF_DEVICE,                   \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, GET_POOL, CUDA_POOL_OF_LOCATION,         \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuMemGetMemPool, cuMemGetMemPool, GET_POOL, CUDA_POOL_OF_LOCATION,                       \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuStreamCreate, cuStreamCreate, MAKE_STREAM, 0, ADDRESS(1))                              \
	F(cuStreamCreateWithPriority, cuStreamCreateWithPriority, MAKE_STREAM, 0, ADDRESS(1))      \
	F(cuGreenCtxStreamCreate, cuGreenCtxStreamCreate, MAKE_STREAM, CUDA_STREAM_OF_CONTEXT,     \
	  ADDRESS(1))                                                                              \
	F(cuMemCreate, cuMemCreate, ALLOCATE_AT, MEMORY_vmm, ADDRESS(1) | BYTES(2) | SOURCE(3))    \
	F(cuMemHostRegister, cuMemHostRegister, ALLOCATE, MEMORY_pinned_host,                      \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cuMemHostRegister_v2, cuMemHostRegister, ALLOCATE, MEMORY_pinned_host,                   \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cuMemHostUnregister, cuMemHostUnregister, FREE, MEMORY_pinned_host, ADDRESS(1))          \
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
	F(cuMulticastCreate, cuMulticastCreate, HANDLE, MEMORY_vmm, ADDRESS(1))                    \
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
	F(cuMemcpyBatchAsync, cuMemcpyBatchAsync, COPY, CUDA_BATCH | CUDA_BATCH_FAIL_INDEX,        \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | COUNT(4) | STREAM(9) | ON_STACK | ASYNC)             \
	F(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, COPY, CUDA_BATCH,                             \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | COUNT(4) | STREAM(8) | ON_STACK | ASYNC)             \
	F(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, COPY, CUDA_BATCH_3D | CUDA_BATCH_FAIL_INDEX, \
	  ADDRESS(2) | COUNT(1) | STREAM(5) | ASYNC)                                               \
	F(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, COPY, CUDA_BATCH_3D,                      \
	  ADDRESS(2) | COUNT(1) | STREAM(4) | ASYNC)                                               \
	F(cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync, COPY, CUDA_BATCH | CUDA_BATCH_FAIL_INDEX,   \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | COUNT(4) | STREAM(9) | ON_STACK | ASYNC)             \
	F(cuMemcpyBatchAsync_v2_ptsz, cuMemcpyBatchAsync, COPY, CUDA_BATCH,                        \
	  ADDRESS(1) | SOURCE(2) | BYTES(3) | COUNT(4) | STREAM(8) | ON_STACK | ASYNC)             \
	F(cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync, COPY,                                   \
	  CUDA_BATCH_3D | CUDA_BATCH_FAIL_INDEX, ADDRESS(2) | COUNT(1) | STREAM(5) | ASYNC)        \
	F(cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync, COPY, CUDA_BATCH_3D,                 \
	  ADDRESS(2) | COUNT(1) | STREAM(4) | ASYNC)                                               \
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
	F(cuMemGetInfo_v2, cuMemGetInfo, FREE_MEMORY, 0, ADDRESS(1) | SOURCE(2))                   \
	F(cuModuleLoadData, cuModuleLoadData, LOAD, 0, 0)                                          \
	F(cuModuleLoadDataEx, cuModuleLoadDataEx, LOAD, 0, 0)                                      \
	F(cuModuleLoadFatBinary, cuModuleLoadFatBinary, LOAD, 0, 0)                                \
	F(cuLibraryLoadData, cuLibraryLoadData, LOAD, 0, 0)                                        \
	F(cuModuleUnload, cuModuleUnload, UNLOAD, 0, 0)                                            \
	F(cuLibraryUnload, cuLibraryUnload, UNLOAD, 0, 0)                                          \
	F(cuStreamBeginCapture_v2, cuStreamBeginCapture, BEGIN_CAPTURE, 0, STREAM(1))              \
	F(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, BEGIN_CAPTURE, 0, STREAM(1))         \
	F(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, BEGIN_CAPTURE, 0,              \
	  STREAM(1) | ADDRESS(2))                                                                  \
	F(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, BEGIN_CAPTURE, 0,         \
	  STREAM(1) | ADDRESS(2))                                                                  \
	F(cuStreamEndCapture, cuStreamEndCapture, END_CAPTURE, 0, STREAM(1) | ADDRESS(2))          \
	F(cuStreamEndCapture_ptsz, cuStreamEndCapture, END_CAPTURE, 0, STREAM(1) | ADDRESS(2))     \
	F(cuEventRecord, cuEventRecord, RECORD_EVENT, 0, ADDRESS(1) | STREAM(2))                   \
	F(cuEventRecord_ptsz, cuEventRecord, RECORD_EVENT, 0, ADDRESS(1) | STREAM(2))              \
	F(cuEventRecordWithFlags, cuEventRecordWithFlags, RECORD_EVENT, 0,                         \
	  ADDRESS(1) | STREAM(2) | BYTES(3))                                                       \
	F(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, RECORD_EVENT, 0,                    \
	  ADDRESS(1) | STREAM(2) | BYTES(3))                                                       \
	F(cuStreamWaitEvent, cuStreamWaitEvent, WAIT_EVENT, 0, ADDRESS(2) | STREAM(1) | BYTES(3))  \
	F(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, WAIT_EVENT, 0,                                \
	  ADDRESS(2) | STREAM(1) | BYTES(3))                                                       \
	F(cuStreamDestroy_v2, cuStreamDestroy, DESTROY_STREAM, 0, STREAM(1))                       \
	F(cuGraphCreate, cuGraphCreate, CREATE_GRAPH, 0, ADDRESS(1))                               \
	F(cuGraphClone, cuGraphClone, CLONE_GRAPH, 0, ADDRESS(1) | SOURCE(2))                      \
	F(cuGraphDestroy, cuGraphDestroy, DESTROY_GRAPH, 0, ADDRESS(1))                            \
	F(cuGraphInstantiate, cuGraphInstantiate, INSTANTIATE, 0, ADDRESS(1) | SOURCE(2))          \
	F(cuGraphInstantiate_v2, cuGraphInstantiate, INSTANTIATE, 0, ADDRESS(1) | SOURCE(2))       \
	F(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, INSTANTIATE, 0,                \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, INSTANTIATE, 0,              \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams, INSTANTIATE, 0,         \
	  ADDRESS(1) | SOURCE(2))                                                                  \
	F(cuGraphExecUpdate, cuGraphExecUpdate, UPDATE_EXECUTABLE, 0, ADDRESS(1) | SOURCE(2))      \
	F(cuGraphExecUpdate_v2, cuGraphExecUpdate, UPDATE_EXECUTABLE, 0, ADDRESS(1) | SOURCE(2))   \
	F(cuGraphExecDestroy, cuGraphExecDestroy, DESTROY_EXECUTABLE, 0, ADDRESS(1))               \
	F(cuGraphAddKernelNode, cuGraphAddKernelNode, ADD_NODE, CUDA_NODE_OF_KERNEL,               \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, ADD_NODE, CUDA_NODE_OF_KERNEL,            \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, ADD_NODE, CUDA_NODE_OF_COPY,                 \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cuGraphAddMemsetNode, cuGraphAddMemsetNode, ADD_NODE, CUDA_NODE_OF_SET,                  \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, ADD_NODE, CUDA_NODE_OF_CHILD,        \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cuGraphAddNode, cuGraphAddNode, ADD_NODE, CUDA_NODE_OF_ANY,                              \
	  ADDRESS(2) | SOURCE(1) | BYTES(5))                                                       \
	F(cuGraphAddNode_v2, cuGraphAddNode, ADD_NODE, CUDA_NODE_OF_ANY,                           \
	  ADDRESS(2) | SOURCE(1) | BYTES(6))                                                       \
	F(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, SET_NODE, CUDA_NODE_OF_KERNEL,   \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, SET_NODE,                     \
	  CUDA_NODE_OF_KERNEL, SOURCE(1) | BYTES(2))                                               \
	F(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, SET_NODE, CUDA_NODE_OF_COPY,     \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, SET_NODE, CUDA_NODE_OF_SET,      \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cuGraphNodeSetParams, cuGraphNodeSetParams, SET_NODE, CUDA_NODE_OF_ANY,                  \
	  SOURCE(1) | BYTES(2))                                                                    \
	F(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, SET_EXECUTABLE_NODE,     \
	  CUDA_NODE_OF_KERNEL, ADDRESS(1) | SOURCE(2) | BYTES(3))                                  \
	F(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, SET_EXECUTABLE_NODE,  \
	  CUDA_NODE_OF_KERNEL, ADDRESS(1) | SOURCE(2) | BYTES(3))                                  \
	F(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, SET_EXECUTABLE_NODE,     \
	  CUDA_NODE_OF_COPY, ADDRESS(1) | SOURCE(2) | BYTES(3))                                    \
	F(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, SET_EXECUTABLE_NODE,     \
	  CUDA_NODE_OF_SET, ADDRESS(1) | SOURCE(2) | BYTES(3))                                     \
	F(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams,                  \
	  SET_EXECUTABLE_NODE, CUDA_NODE_OF_CHILD, ADDRESS(1) | SOURCE(2) | BYTES(3))              \
	F(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, SET_EXECUTABLE_NODE,                 \
	  CUDA_NODE_OF_ANY, ADDRESS(1) | SOURCE(2) | BYTES(3))                                     \
	F(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, ENABLE_NODE, 0,                            \
	  ADDRESS(1) | SOURCE(2) | KIND(3))                                                        \
	F(cuGraphDestroyNode, cuGraphDestroyNode, DESTROY_NODE, 0, SOURCE(1))                      \
	F(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, GET_CHILD, 0, SOURCE(1))   \
	F(cuGraphLaunch, cuGraphLaunch, LAUNCH_GRAPH, 0, ADDRESS(1) | STREAM(2))                   \
	F(cuGraphLaunch_ptsz, cuGraphLaunch, LAUNCH_GRAPH, 0, ADDRESS(1) | STREAM(2))              \
	F(cuStreamSynchronize, cuStreamSynchronize, WAIT_STREAM, 0, STREAM(1))                     \
	F(cuStreamSynchronize_ptsz, cuStreamSynchronize, WAIT_STREAM, 0, STREAM(1))                \
	F(cuCtxSynchronize, cuCtxSynchronize, WAIT_DEVICE, 0, 0)                                   \
	F(cuEventSynchronize, cuEventSynchronize, SYNC_EVENT, 0, 0)                                \
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

#endif
