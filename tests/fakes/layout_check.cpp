// Compiled where the CUDA toolkit is, and never run: the stand-ins' types against the real ones.

#include "cuda_types.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace {

using namespace standin;

#define SAME_SIZE(ours, theirs) \
    static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs))
#define SAME_PLACE(ours, our_member, theirs, their_member)                       \
    static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member)); \
    static_assert(sizeof(ours::our_member) == sizeof(theirs::their_member))

SAME_SIZE(Dim3, dim3);
SAME_SIZE(Error, cudaError_t);
SAME_SIZE(Error, CUresult);
SAME_SIZE(DevicePointer, CUdeviceptr);
SAME_SIZE(MemoryHandle, CUmemGenericAllocationHandle);
SAME_SIZE(Device, CUdevice);

SAME_SIZE(PitchedPointer, cudaPitchedPtr);
SAME_PLACE(PitchedPointer, pointer, cudaPitchedPtr, ptr);
SAME_PLACE(PitchedPointer, pitch, cudaPitchedPtr, pitch);
SAME_PLACE(PitchedPointer, width, cudaPitchedPtr, xsize);
SAME_PLACE(PitchedPointer, height, cudaPitchedPtr, ysize);

SAME_SIZE(Extent, cudaExtent);
SAME_PLACE(Extent, width, cudaExtent, width);
SAME_PLACE(Extent, height, cudaExtent, height);
SAME_PLACE(Extent, depth, cudaExtent, depth);

SAME_SIZE(Position, cudaPos);
SAME_PLACE(Position, y, cudaPos, y);

SAME_SIZE(Copy3D, cudaMemcpy3DParms);
SAME_PLACE(Copy3D, from_array, cudaMemcpy3DParms, srcArray);
SAME_PLACE(Copy3D, from_position, cudaMemcpy3DParms, srcPos);
SAME_PLACE(Copy3D, from, cudaMemcpy3DParms, srcPtr);
SAME_PLACE(Copy3D, to_array, cudaMemcpy3DParms, dstArray);
SAME_PLACE(Copy3D, to_position, cudaMemcpy3DParms, dstPos);
SAME_PLACE(Copy3D, to, cudaMemcpy3DParms, dstPtr);
SAME_PLACE(Copy3D, extent, cudaMemcpy3DParms, extent);
SAME_PLACE(Copy3D, direction, cudaMemcpy3DParms, kind);

SAME_SIZE(Copy3DPeer, cudaMemcpy3DPeerParms);
SAME_PLACE(Copy3DPeer, from, cudaMemcpy3DPeerParms, srcPtr);
SAME_PLACE(Copy3DPeer, from_device, cudaMemcpy3DPeerParms, srcDevice);
SAME_PLACE(Copy3DPeer, to, cudaMemcpy3DPeerParms, dstPtr);
SAME_PLACE(Copy3DPeer, to_device, cudaMemcpy3DPeerParms, dstDevice);
SAME_PLACE(Copy3DPeer, extent, cudaMemcpy3DPeerParms, extent);

SAME_SIZE(CopyAttributes, cudaMemcpyAttributes);
SAME_SIZE(CopyAttributes, CUmemcpyAttributes);
SAME_PLACE(CopyAttributes, source_order, cudaMemcpyAttributes, srcAccessOrder);
SAME_PLACE(CopyAttributes, flags, cudaMemcpyAttributes, flags);
static_assert(int{kPointerOperand} == cudaMemcpyOperandTypePointer);
static_assert(int{kArrayOperand} == cudaMemcpyOperandTypeArray);
SAME_SIZE(CopyOperand, cudaMemcpy3DOperand);
SAME_PLACE(CopyOperand, type, cudaMemcpy3DOperand, type);
SAME_PLACE(CopyOperand, of.memory.pointer, cudaMemcpy3DOperand, op.ptr.ptr);
SAME_PLACE(CopyOperand, of.memory.hint, cudaMemcpy3DOperand, op.ptr.locHint);
SAME_PLACE(CopyOperand, of.array.array, cudaMemcpy3DOperand, op.array.array);
SAME_SIZE(BatchedCopy3D, cudaMemcpy3DBatchOp);
SAME_SIZE(BatchedCopy3D, CUDA_MEMCPY3D_BATCH_OP);
SAME_PLACE(BatchedCopy3D, from, cudaMemcpy3DBatchOp, src);
SAME_PLACE(BatchedCopy3D, to, cudaMemcpy3DBatchOp, dst);
SAME_PLACE(BatchedCopy3D, extent, cudaMemcpy3DBatchOp, extent);
SAME_PLACE(BatchedCopy3D, source_order, cudaMemcpy3DBatchOp, srcAccessOrder);
SAME_PLACE(BatchedCopy3D, flags, cudaMemcpy3DBatchOp, flags);

SAME_SIZE(LaunchConfig, cudaLaunchConfig_t);
SAME_PLACE(LaunchConfig, grid, cudaLaunchConfig_t, gridDim);
SAME_PLACE(LaunchConfig, block, cudaLaunchConfig_t, blockDim);
SAME_PLACE(LaunchConfig, shared_bytes, cudaLaunchConfig_t, dynamicSmemBytes);
SAME_PLACE(LaunchConfig, stream, cudaLaunchConfig_t, stream);
SAME_PLACE(LaunchConfig, attribute_count, cudaLaunchConfig_t, numAttrs);

SAME_SIZE(DriverLaunchConfig, CUlaunchConfig);
static_assert(offsetof(DriverLaunchConfig, grid) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(DriverLaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
SAME_PLACE(DriverLaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(DriverLaunchConfig, stream, CUlaunchConfig, hStream);
SAME_PLACE(DriverLaunchConfig, attribute_count, CUlaunchConfig, numAttrs);

SAME_SIZE(DriverCopy2D, CUDA_MEMCPY2D);
SAME_PLACE(DriverCopy2D, from_x, CUDA_MEMCPY2D, srcXInBytes);
SAME_PLACE(DriverCopy2D, from_y, CUDA_MEMCPY2D, srcY);
SAME_PLACE(DriverCopy2D, from_type, CUDA_MEMCPY2D, srcMemoryType);
SAME_PLACE(DriverCopy2D, from_host, CUDA_MEMCPY2D, srcHost);
SAME_PLACE(DriverCopy2D, from_device, CUDA_MEMCPY2D, srcDevice);
SAME_PLACE(DriverCopy2D, from_pitch, CUDA_MEMCPY2D, srcPitch);
SAME_PLACE(DriverCopy2D, to_type, CUDA_MEMCPY2D, dstMemoryType);
SAME_PLACE(DriverCopy2D, to_host, CUDA_MEMCPY2D, dstHost);
SAME_PLACE(DriverCopy2D, to_device, CUDA_MEMCPY2D, dstDevice);
SAME_PLACE(DriverCopy2D, to_pitch, CUDA_MEMCPY2D, dstPitch);
SAME_PLACE(DriverCopy2D, width, CUDA_MEMCPY2D, WidthInBytes);
SAME_PLACE(DriverCopy2D, height, CUDA_MEMCPY2D, Height);

SAME_SIZE(DriverCopy3D, CUDA_MEMCPY3D);
SAME_PLACE(DriverCopy3D, from_z, CUDA_MEMCPY3D, srcZ);
SAME_PLACE(DriverCopy3D, from_type, CUDA_MEMCPY3D, srcMemoryType);
SAME_PLACE(DriverCopy3D, from_host, CUDA_MEMCPY3D, srcHost);
SAME_PLACE(DriverCopy3D, from_device, CUDA_MEMCPY3D, srcDevice);
SAME_PLACE(DriverCopy3D, from_pitch, CUDA_MEMCPY3D, srcPitch);
SAME_PLACE(DriverCopy3D, from_height, CUDA_MEMCPY3D, srcHeight);
SAME_PLACE(DriverCopy3D, to_type, CUDA_MEMCPY3D, dstMemoryType);
SAME_PLACE(DriverCopy3D, to_host, CUDA_MEMCPY3D, dstHost);
SAME_PLACE(DriverCopy3D, to_device, CUDA_MEMCPY3D, dstDevice);
SAME_PLACE(DriverCopy3D, to_pitch, CUDA_MEMCPY3D, dstPitch);
SAME_PLACE(DriverCopy3D, to_height, CUDA_MEMCPY3D, dstHeight);
SAME_PLACE(DriverCopy3D, width, CUDA_MEMCPY3D, WidthInBytes);
SAME_PLACE(DriverCopy3D, height, CUDA_MEMCPY3D, Height);
SAME_PLACE(DriverCopy3D, depth, CUDA_MEMCPY3D, Depth);

SAME_SIZE(MemoryLocation, CUmemLocation);
SAME_SIZE(MemoryProperties, CUmemAllocationProp);
SAME_PLACE(MemoryProperties, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(MemoryProperties, location, CUmemAllocationProp, location);
SAME_SIZE(MemoryAccess, CUmemAccessDesc);
SAME_SIZE(PoolProperties, CUmemPoolProps);
SAME_PLACE(PoolProperties, location, CUmemPoolProps, location);
#if CUDA_VERSION >= 12050
SAME_SIZE(ContextParameters, CUctxCreateParams);
#endif

static_assert(static_cast<int>(kMemoryAllocation) == cudaErrorMemoryAllocation);
static_assert(static_cast<int>(kMemoryAllocation) == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(static_cast<int>(kNotInitialized) == CUDA_ERROR_NOT_INITIALIZED);
static_assert(static_cast<int>(kInvalidPitchValue) == cudaErrorInvalidPitchValue);
static_assert(static_cast<int>(kInvalidSymbol) == cudaErrorInvalidSymbol);
static_assert(static_cast<int>(kIncompatibleDriverContext) == cudaErrorIncompatibleDriverContext);
static_assert(static_cast<int>(kInvalidContext) == CUDA_ERROR_INVALID_CONTEXT);
static_assert(static_cast<int>(kInvalidResourceHandle) == cudaErrorInvalidResourceHandle);
static_assert(static_cast<int>(kInvalidResourceHandle) == CUDA_ERROR_INVALID_HANDLE);
static_assert(static_cast<int>(kNotFound) == CUDA_ERROR_NOT_FOUND);
static_assert(static_cast<int>(kContextIsDestroyed) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
static_assert(static_cast<int>(kUnknown) == cudaErrorUnknown);
static_assert(static_cast<int>(kUnknown) == CUDA_ERROR_UNKNOWN);

static_assert(static_cast<int>(kHostToDevice) == cudaMemcpyHostToDevice);
static_assert(static_cast<int>(kDefault) == cudaMemcpyDefault);
static_assert(static_cast<int>(kHostMemory) == CU_MEMORYTYPE_HOST);
static_assert(static_cast<int>(kDeviceMemory) == CU_MEMORYTYPE_DEVICE);
static_assert(static_cast<int>(kUnifiedMemory) == CU_MEMORYTYPE_UNIFIED);

SAME_SIZE(DriverKernelNode, CUDA_KERNEL_NODE_PARAMS_v1);
SAME_PLACE(DriverKernelNode, grid.x, CUDA_KERNEL_NODE_PARAMS_v1, gridDimX);
SAME_PLACE(DriverKernelNode, block.x, CUDA_KERNEL_NODE_PARAMS_v1, blockDimX);
SAME_PLACE(DriverKernelNode, arguments, CUDA_KERNEL_NODE_PARAMS_v1, kernelParams);
SAME_SIZE(DriverKernelNode2, CUDA_KERNEL_NODE_PARAMS_v2);
SAME_SIZE(DriverKernelNode2, CUDA_KERNEL_NODE_PARAMS_v3);
SAME_PLACE(DriverKernelNode2, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern);
SAME_PLACE(DriverKernelNode2, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx);

SAME_SIZE(KernelNode, cudaKernelNodeParams);
SAME_SIZE(KernelNode, cudaKernelNodeParamsV2);
SAME_PLACE(KernelNode, grid, cudaKernelNodeParams, gridDim);
SAME_PLACE(KernelNode, block, cudaKernelNodeParams, blockDim);
SAME_PLACE(KernelNode, arguments, cudaKernelNodeParams, kernelParams);

SAME_SIZE(SetNode, CUDA_MEMSET_NODE_PARAMS);
SAME_SIZE(SetNode, cudaMemsetParams);
SAME_PLACE(SetNode, element_bytes, cudaMemsetParams, elementSize);
SAME_PLACE(SetNode, width, cudaMemsetParams, width);
SAME_PLACE(SetNode, height, cudaMemsetParams, height);

SAME_SIZE(HostNode, CUDA_HOST_NODE_PARAMS);
SAME_SIZE(HostNode, cudaHostNodeParams);
SAME_SIZE(DriverCopyNode, CUDA_MEMCPY_NODE_PARAMS);
SAME_PLACE(DriverCopyNode, copy, CUDA_MEMCPY_NODE_PARAMS, copyParams);
SAME_SIZE(CopyNode, cudaMemcpyNodeParams);
SAME_PLACE(CopyNode, copy, cudaMemcpyNodeParams, copyParams);
SAME_SIZE(AllocateNode, CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_SIZE(AllocateNode, cudaMemAllocNodeParams);
SAME_PLACE(AllocateNode, bytes, CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
SAME_PLACE(AllocateNode, address, CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
SAME_SIZE(DriverAnyNode, CUgraphNodeParams);
SAME_PLACE(DriverAnyNode, of, CUgraphNodeParams, reserved1);
SAME_SIZE(RuntimeAnyNode, cudaGraphNodeParams);
SAME_PLACE(RuntimeAnyNode, of, cudaGraphNodeParams, reserved1);

SAME_SIZE(InstantiateParameters, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_SIZE(InstantiateParameters, cudaGraphInstantiateParams);
SAME_PLACE(InstantiateParameters, result, cudaGraphInstantiateParams, result_out);
SAME_SIZE(UpdateInfo, CUgraphExecUpdateResultInfo);
SAME_SIZE(UpdateInfo, cudaGraphExecUpdateResultInfo);
SAME_SIZE(EdgeData, CUgraphEdgeData);

}  // namespace
