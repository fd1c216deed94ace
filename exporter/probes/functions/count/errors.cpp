#include "exporter/probes/functions/count/errors.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "exporter/symbols/names/cuda_errors.h"

namespace gpusnoop::probes {

namespace {

using Row = std::pair<int, std::string_view>;

// cublasStatus_t of CUDA 13.0's cublas_api.h; cuBLASLt has the same.
constexpr auto cublas_names = std::to_array<Row>({
    {1, "CUBLAS_STATUS_NOT_INITIALIZED"},
    {3, "CUBLAS_STATUS_ALLOC_FAILED"},
    {7, "CUBLAS_STATUS_INVALID_VALUE"},
    {8, "CUBLAS_STATUS_ARCH_MISMATCH"},
    {11, "CUBLAS_STATUS_MAPPING_ERROR"},
    {13, "CUBLAS_STATUS_EXECUTION_FAILED"},
    {14, "CUBLAS_STATUS_INTERNAL_ERROR"},
    {15, "CUBLAS_STATUS_NOT_SUPPORTED"},
    {16, "CUBLAS_STATUS_LICENSE_ERROR"},
});

// cudnnStatus_t: below 1000 as cuDNN 8 has it (cudnn_ops_infer.h), from there on as cuDNN 9 has it
// (cudnn_graph_v9.h).
constexpr auto cudnn_names = std::to_array<Row>({
    {1, "CUDNN_STATUS_NOT_INITIALIZED"},
    {2, "CUDNN_STATUS_ALLOC_FAILED"},
    {3, "CUDNN_STATUS_BAD_PARAM"},
    {4, "CUDNN_STATUS_INTERNAL_ERROR"},
    {5, "CUDNN_STATUS_INVALID_VALUE"},
    {6, "CUDNN_STATUS_ARCH_MISMATCH"},
    {7, "CUDNN_STATUS_MAPPING_ERROR"},
    {8, "CUDNN_STATUS_EXECUTION_FAILED"},
    {9, "CUDNN_STATUS_NOT_SUPPORTED"},
    {10, "CUDNN_STATUS_LICENSE_ERROR"},
    {11, "CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING"},
    {12, "CUDNN_STATUS_RUNTIME_IN_PROGRESS"},
    {13, "CUDNN_STATUS_RUNTIME_FP_OVERFLOW"},
    {14, "CUDNN_STATUS_VERSION_MISMATCH"},
    {1001, "CUDNN_STATUS_NOT_INITIALIZED"},
    {1002, "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"},
    {1003, "CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH"},
    {1004, "CUDNN_STATUS_DEPRECATED"},
    {1005, "CUDNN_STATUS_LICENSE_ERROR"},
    {1006, "CUDNN_STATUS_RUNTIME_IN_PROGRESS"},
    {1007, "CUDNN_STATUS_RUNTIME_FP_OVERFLOW"},
    {1008, "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"},
    {2000, "CUDNN_STATUS_BAD_PARAM"},
    {2001, "CUDNN_STATUS_INVALID_VALUE"},
    {2002, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"},
    {2003, "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER"},
    {2004, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
    {2005, "CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND"},
    {2006, "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT"},
    {2007, "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH"},
    {2008, "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH"},
    {2009, "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES"},
    {2010, "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE"},
    {2011, "CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH"},
    {2012, "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE"},
    {3000, "CUDNN_STATUS_NOT_SUPPORTED"},
    {3001, "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN"},
    {3002, "CUDNN_STATUS_NOT_SUPPORTED_SHAPE"},
    {3003, "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE"},
    {3004, "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT"},
    {3005, "CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER"},
    {3006, "CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART"},
    {3007, "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH"},
    {3008, "CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING"},
    {3009, "CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE"},
    {3010, "CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT"},
    {3011, "CUDNN_STATUS_NOT_SUPPORTED_PADDING"},
    {3012, "CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM"},
    {3013, "CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API"},
    {3014, "CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE"},
    {4000, "CUDNN_STATUS_INTERNAL_ERROR"},
    {4001, "CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED"},
    {4002, "CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE"},
    {4003, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
    {4004, "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"},
    {4005, "CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM"},
    {4006, "CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED"},
    {5000, "CUDNN_STATUS_EXECUTION_FAILED"},
    {5001, "CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER"},
    {5002, "CUDNN_STATUS_EXECUTION_FAILED_CUBLAS"},
    {5003, "CUDNN_STATUS_EXECUTION_FAILED_CUDART"},
    {5004, "CUDNN_STATUS_EXECUTION_FAILED_CURAND"},
});

// ncclResult_t of NCCL 2.28's nccl.h. ncclInProgress is no error: a nonblocking communicator
// returns it for work that it has begun.
constexpr auto nccl_names = std::to_array<Row>({
    {1, "ncclUnhandledCudaError"},
    {2, "ncclSystemError"},
    {3, "ncclInternalError"},
    {4, "ncclInvalidArgument"},
    {5, "ncclInvalidUsage"},
    {6, "ncclRemoteError"},
});

constexpr int nccl_in_progress = 7;

std::string name_in(std::span<const Row> names, int code) {
    const auto *const row = std::ranges::lower_bound(names, code, {}, &Row::first).base();
    return row != names.data() + names.size() && row->first == code
               ? std::string(row->second)
               : "code_" + std::to_string(code);
}

std::string cuda_name(int code) {
    const std::string_view name = cuda_error_name(code);
    return name.empty() ? "code_" + std::to_string(code) : std::string(name);
}

// Functions of the C library return -1 and put the code in errno, which is not seen; others return
// the negative code.
std::optional<std::string> errno_of(int result) {
    constexpr int most = 4095;  // MAX_ERRNO of the kernel
    if (result >= 0 || result < -most) {
        return std::nullopt;
    }
    const char *const name = result == -1 ? nullptr : ::strerrorname_np(-result);
    return name == nullptr ? std::to_string(result) : std::string(name);
}

}  // namespace

std::optional<std::string> error_of(ErrorKind kind, std::uint64_t result) {
    // Enumerations and int are the lower half of the register; the upper half is undefined.
    const int code = static_cast<int>(static_cast<std::uint32_t>(result));
    switch (kind) {
        case ErrorKind::none:
            return std::nullopt;
        case ErrorKind::cuda_error:
            return code == 0 ? std::nullopt : std::optional(cuda_name(code));
        case ErrorKind::cublas_status:
            return code == 0 ? std::nullopt : std::optional(name_in(cublas_names, code));
        case ErrorKind::cudnn_status:
            return code == 0 ? std::nullopt : std::optional(name_in(cudnn_names, code));
        case ErrorKind::nccl_result:
            return code == 0 || code == nccl_in_progress ? std::nullopt
                                                         : std::optional(name_in(nccl_names, code));
        case ErrorKind::errno_value:
            return errno_of(code);
        case ErrorKind::nonzero:
            return code == 0 ? std::nullopt : std::optional(std::to_string(code));
        case ErrorKind::null:
            return result == 0 ? std::optional<std::string>("null") : std::nullopt;
    }
    return std::nullopt;
}

}  // namespace gpusnoop::probes
