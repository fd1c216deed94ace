#include "exporter/probes/cuda/functions.h"

#include <array>

#include "bpf/cuda/functions.h"

namespace gpusnoop::probes {

namespace {

// The number of a function is its index in the table.
enum Number : std::uint16_t {
#define NUMBER(symbol, name, operation, variant, positions) number_##symbol,
    CUDA_RUNTIME_FUNCTIONS(NUMBER) CUDA_DRIVER_FUNCTIONS(NUMBER)
#undef NUMBER
        function_count
};
static_assert(function_count < CUDA_NO_FUNCTION && function_count <= CUDA_TRACED_FUNCTIONS);

constexpr bool shows_errors(cuda_operation operation) {
    return operation != CUDA_GET_KERNEL && operation != CUDA_GET_FUNCTION;
}

#define ROW(symbol, name, operation, variant, positions, is_driver)                   \
    CudaFunction{#symbol,                                                             \
                 #name,                                                               \
                 CUDA_COOKIE(number_##symbol, CUDA_##operation, variant, positions) | \
                     ((is_driver) ? CUDA_OF_DRIVER : 0),                              \
                 CUDA_##operation,                                                    \
                 is_driver,                                                           \
                 CUDA_##operation == CUDA_REGISTER,                                   \
                 shows_errors(CUDA_##operation)},
#define RUNTIME(symbol, name, operation, variant, positions) \
    ROW(symbol, name, operation, variant, positions, false)
#define DRIVER(symbol, name, operation, variant, positions) \
    ROW(symbol, name, operation, variant, positions, true)

constexpr std::array<CudaFunction, function_count> functions = {
    {CUDA_RUNTIME_FUNCTIONS(RUNTIME) CUDA_DRIVER_FUNCTIONS(DRIVER)}};

#undef DRIVER
#undef RUNTIME
#undef ROW

}  // namespace

std::span<const CudaFunction> cuda_functions() {
    return functions;
}

}  // namespace gpusnoop::probes
