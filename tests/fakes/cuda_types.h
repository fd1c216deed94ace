// The types of CUDA's C interfaces that the stand-ins use, declared without CUDA's headers. The ABI
// is the real one: an enum travels as an int, and structures have the real layouts, which
// layout_check.cpp compares with the toolkit's where there is one.

#pragma once

#include <cstddef>
#include <cstdint>

namespace standin {

struct Dim3 {
    std::uint32_t x = 1;
    std::uint32_t y = 1;
    std::uint32_t z = 1;
};
static_assert(sizeof(Dim3) == 12);

// cudaError_t, and CUresult where it has the same number.
enum Error : int {
    kSuccess = 0,
    kInvalidValue = 1,
    kMemoryAllocation = 2,  // CUDA_ERROR_OUT_OF_MEMORY
    kNotInitialized = 3,
    kInvalidConfiguration = 9,
    kInvalidPitchValue = 12,
    kInvalidSymbol = 13,
    kInvalidMemcpyDirection = 21,
    kIncompatibleDriverContext = 49,
    kMissingConfiguration = 52,
    kInvalidDeviceFunction = 98,
    kNoDevice = 100,
    kInvalidDevice = 101,
    kInvalidContext = 201,  // cudaErrorDeviceUninitialized
    kInvalidResourceHandle = 400,
    kIllegalState = 401,
    kNotFound = 500,
    kContextIsDestroyed = 709,
    kAlreadyRegistered = 712,
    kNotRegistered = 713,
    kNotSupported = 801,
    kCaptureUnsupported = 900,
    kCaptureInvalidated = 901,
    kCaptureMerge = 902,
    kCaptureUnmatched = 903,
    kCaptureUnjoined = 904,
    kCaptureIsolation = 905,
    kCaptureImplicit = 906,
    kCapturedEvent = 907,
    kCaptureWrongThread = 908,
    kGraphUpdateFailure = 910,
    kUnknown = 999,
};

// cudaMemcpyKind
enum CopyDirection : int {
    kHostToHost = 0,
    kHostToDevice = 1,
    kDeviceToHost = 2,
    kDeviceToDevice = 3,
    kDefault = 4,
};

// CUmemorytype
enum MemoryType : int { kHostMemory = 1, kDeviceMemory = 2, kArrayMemory = 3, kUnifiedMemory = 4 };

using Stream = void *;
using Event = void *;
using Kernel = void *;          // cudaKernel_t, which is CUkernel
using DriverFunction = void *;  // cudaFunction_t, which is CUfunction
using Graph = void *;
using GraphExec = void *;
using GraphNode = void *;
using HostFunction = void (*)(void *argument);
using MemoryPool = void *;
using Context = void *;
using Module = void *;
using Library = void *;
using Device = int;
using DevicePointer = std::uintptr_t;
using MemoryHandle = std::uint64_t;  // CUmemGenericAllocationHandle
using Hook = void (*)(const char *function, void *context);

// The streams that are not created: of a context, of a thread.
inline constexpr std::uintptr_t kLegacyStream = 1;
inline constexpr std::uintptr_t kPerThreadStream = 2;

struct PitchedPointer {  // cudaPitchedPtr
    void *pointer = nullptr;
    std::size_t pitch = 0;
    std::size_t width = 0;
    std::size_t height = 0;
};

struct Extent {  // cudaExtent
    std::size_t width = 0;
    std::size_t height = 0;
    std::size_t depth = 0;
};

struct Position {  // cudaPos
    std::size_t x = 0;
    std::size_t y = 0;
    std::size_t z = 0;
};

struct Copy3D {  // cudaMemcpy3DParms
    void *from_array = nullptr;
    Position from_position;
    PitchedPointer from;
    void *to_array = nullptr;
    Position to_position;
    PitchedPointer to;
    Extent extent;
    int direction = 0;
};

struct Copy3DPeer {  // cudaMemcpy3DPeerParms
    void *from_array = nullptr;
    Position from_position;
    PitchedPointer from;
    int from_device = 0;
    void *to_array = nullptr;
    Position to_position;
    PitchedPointer to;
    int to_device = 0;
    Extent extent;
};

struct LaunchConfig {  // cudaLaunchConfig_t
    Dim3 grid;
    Dim3 block;
    std::size_t shared_bytes = 0;
    Stream stream = nullptr;
    void *attributes = nullptr;
    std::uint32_t attribute_count = 0;
};

struct DriverLaunchConfig {  // CUlaunchConfig
    Dim3 grid;
    Dim3 block;
    std::uint32_t shared_bytes = 0;
    Stream stream = nullptr;
    void *attributes = nullptr;
    std::uint32_t attribute_count = 0;
};

struct DriverCopy2D {  // CUDA_MEMCPY2D
    std::size_t from_x = 0;
    std::size_t from_y = 0;
    int from_type = 0;
    const void *from_host = nullptr;
    DevicePointer from_device = 0;
    void *from_array = nullptr;
    std::size_t from_pitch = 0;
    std::size_t to_x = 0;
    std::size_t to_y = 0;
    int to_type = 0;
    void *to_host = nullptr;
    DevicePointer to_device = 0;
    void *to_array = nullptr;
    std::size_t to_pitch = 0;
    std::size_t width = 0;
    std::size_t height = 0;
};

struct DriverCopy3D {  // CUDA_MEMCPY3D
    std::size_t from_x = 0;
    std::size_t from_y = 0;
    std::size_t from_z = 0;
    std::size_t from_level = 0;
    int from_type = 0;
    const void *from_host = nullptr;
    DevicePointer from_device = 0;
    void *from_array = nullptr;
    void *reserved_from = nullptr;
    std::size_t from_pitch = 0;
    std::size_t from_height = 0;
    std::size_t to_x = 0;
    std::size_t to_y = 0;
    std::size_t to_z = 0;
    std::size_t to_level = 0;
    int to_type = 0;
    void *to_host = nullptr;
    DevicePointer to_device = 0;
    void *to_array = nullptr;
    void *reserved_to = nullptr;
    std::size_t to_pitch = 0;
    std::size_t to_height = 0;
    std::size_t width = 0;
    std::size_t height = 0;
    std::size_t depth = 0;
};

enum LocationType : int {  // CUmemLocationType
    kOnDevice = 1,
    kOnHost = 2,
    kOnHostNuma = 3,
    kOnCurrentHostNuma = 4,
};

struct MemoryLocation {  // CUmemLocation
    int type = kOnDevice;
    int id = 0;
};

struct CopyAttributes {    // CUmemcpyAttributes
    int source_order = 1;  // as the stream has it
    MemoryLocation source_hint;
    MemoryLocation destination_hint;
    unsigned flags = 0;
};

enum OperandType : int { kPointerOperand = 1, kArrayOperand = 2 };  // CUmemcpy3DOperandType

struct CopyOperand {  // CUmemcpy3DOperand, cudaMemcpy3DOperand
    struct Memory {
        DevicePointer pointer = 0;
        std::size_t row_length = 0;
        std::size_t layer_height = 0;
        MemoryLocation hint;
    };
    struct Array {
        void *array = nullptr;
        Position offset;
    };
    int type = kPointerOperand;
    union Of {
        Of() : memory{} {}
        Memory memory;
        Array array;
    } of;
};

struct BatchedCopy3D {  // CUDA_MEMCPY3D_BATCH_OP, cudaMemcpy3DBatchOp
    CopyOperand from;
    CopyOperand to;
    Extent extent;
    int source_order = 1;
    unsigned flags = 0;
};

struct MemoryProperties {  // CUmemAllocationProp
    int type = 1;          // pinned
    int handle_types = 0;
    MemoryLocation location;
    void *windows_only = nullptr;
    std::uint8_t flags[8] = {};
};

struct MemoryAccess {  // CUmemAccessDesc
    MemoryLocation location;
    int flags = 3;  // read and write
};

struct ContextParameters {  // CUctxCreateParams
    void *affinity = nullptr;
    int affinity_count = 0;
    void *graphics = nullptr;
};

// CUstreamCaptureMode, and how a thread is bound by captures.
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };

// CUstreamCaptureStatus
enum CaptureStatus : int { kNotCapturing = 0, kCapturing = 1, kCaptureIsInvalid = 2 };

// CUgraphNodeType
enum NodeType : int {
    kKernelNode = 0,
    kCopyNode = 1,
    kSetNode = 2,
    kHostNode = 3,
    kChildNode = 4,
    kEmptyNode = 5,
    kEventWaitNode = 6,
    kEventRecordNode = 7,
    kAllocateNode = 10,
    kFreeNode = 11,
};

// CUgraphExecUpdateResult
enum UpdateResult : int {
    kUpdateSuccess = 0,
    kUpdateError = 1,
    kUpdateTopologyChanged = 2,
    kUpdateNodeTypeChanged = 3,
    kUpdateParametersChanged = 5,
    kUpdateNotSupported = 6,
};

inline constexpr unsigned kNonBlockingStream = 1;
inline constexpr unsigned kExternalEvent = 1;  // CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL

struct DriverKernelNode {  // CUDA_KERNEL_NODE_PARAMS_v1
    DriverFunction function = nullptr;
    Dim3 grid;
    Dim3 block;
    std::uint32_t shared_bytes = 0;
    void **arguments = nullptr;
    void **extra = nullptr;
};

struct DriverKernelNode2 {  // CUDA_KERNEL_NODE_PARAMS_v2 and _v3
    DriverKernelNode first;
    Kernel kernel = nullptr;  // where there is no function
    Context context = nullptr;
};

struct KernelNode {  // cudaKernelNodeParams, with or without V2
    void *function = nullptr;
    Dim3 grid;
    Dim3 block;
    std::uint32_t shared_bytes = 0;
    void **arguments = nullptr;
    void **extra = nullptr;
};

struct SetNode {  // CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams
    DevicePointer to = 0;
    std::size_t pitch = 0;
    std::uint32_t value = 0;
    std::uint32_t element_bytes = 1;
    std::size_t width = 0;
    std::size_t height = 1;
};

struct HostNode {  // CUDA_HOST_NODE_PARAMS, cudaHostNodeParams
    HostFunction function = nullptr;
    void *argument = nullptr;
};

struct DriverCopyNode {  // CUDA_MEMCPY_NODE_PARAMS
    int flags = 0;
    int reserved = 0;
    Context context = nullptr;
    DriverCopy3D copy;
};

struct CopyNode {  // cudaMemcpyNodeParams
    int flags = 0;
    int reserved[3] = {};
    Copy3D copy;
};

struct ChildNode {  // CUDA_CHILD_GRAPH_NODE_PARAMS
    Graph graph = nullptr;
    int ownership = 0;
};

struct PoolProperties {  // CUmemPoolProps
    int allocation_type = 1;
    int handle_types = 0;
    MemoryLocation location;
    void *windows_only = nullptr;
    std::size_t most_bytes = 0;
    std::uint8_t reserved[56] = {};
};

struct AllocateNode {  // CUDA_MEM_ALLOC_NODE_PARAMS, cudaMemAllocNodeParams
    PoolProperties pool;
    const MemoryAccess *access = nullptr;
    std::size_t access_count = 0;
    std::size_t bytes = 0;
    DevicePointer address = 0;  // is put here
};

// CUgraphNodeParams and cudaGraphNodeParams, whose nodes differ for kernels and copies.
template <typename OfKernel, typename OfCopy>
struct AnyNode {
    int type = kEmptyNode;
    int reserved[3] = {};
    union Of {
        Of() : words{} {}
        long long words[29];
        OfKernel kernel;
        OfCopy copy;
        SetNode set;
        HostNode host;
        ChildNode child;
        Event event;
        AllocateNode allocate;
        DevicePointer free;
    } of;
    long long reserved2 = 0;
};
using DriverAnyNode = AnyNode<DriverKernelNode2, DriverCopyNode>;
using RuntimeAnyNode = AnyNode<KernelNode, CopyNode>;

struct InstantiateParameters {  // CUDA_GRAPH_INSTANTIATE_PARAMS
    std::uint64_t flags = 0;
    Stream upload_stream = nullptr;
    GraphNode error_node = nullptr;
    int result = 0;
};

struct UpdateInfo {  // CUgraphExecUpdateResultInfo
    int result = kUpdateSuccess;
    GraphNode error_node = nullptr;
    GraphNode error_from_node = nullptr;
};

struct EdgeData {  // CUgraphEdgeData
    std::uint8_t from_port = 0;
    std::uint8_t to_port = 0;
    std::uint8_t type = 0;
    std::uint8_t reserved[5] = {};
};

}  // namespace standin
