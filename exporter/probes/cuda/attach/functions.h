// The functions of the CUDA probe, from the table in bpf/cuda/functions.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gpusnoop::probes {

// The interface that a function belongs to: its results are errors of that interface.
enum class CudaApi : std::uint8_t { runtime, driver, cupti };

struct CudaFunction {
    std::string_view symbol;
    std::string_view name;   // shown with its errors
    std::uint64_t cookie;    // the attach cookie of its probe
    std::uint8_t operation;  // enum cuda_operation
    CudaApi api;
    [[nodiscard]] constexpr bool is_driver() const { return api == CudaApi::driver; }
    bool entry_only;    // its return is not needed
    bool shows_errors;  // false: a helper that users do not know, and whose caller fails too
};

// By the number that records have in `function`, without CUDA_FUNCTION_FLAGS.
std::span<const CudaFunction> cuda_functions();

// By an attach cookie; null: it is no function's.
[[nodiscard]] const CudaFunction *function_of(std::uint64_t cookie);

// Whether calls of the cookie's function launch a kernel; those that launch a graph do not.
[[nodiscard]] bool launches_kernel(std::uint64_t cookie);

// Whether calls of the cookie's function give the program memory, or a mapping of it.
[[nodiscard]] bool allocates(std::uint64_t cookie);

// The symbol of the function that a record has, with or without those flags; empty: it has none.
[[nodiscard]] std::string_view symbol_of(std::uint16_t function);

// The name of a result of this API; empty if it has none.
[[nodiscard]] std::string_view error_name(CudaApi api, int code);

// Is the file of this name CUPTI? It has no function that allocates, copies or launches. Python
// packages add a hash to the names of the libraries that they bring.
[[nodiscard]] inline bool is_cupti(std::string_view name) {
    return name.starts_with("libcupti.so") || name.starts_with("libcupti-");
}

// Is the file of this name the driver? The runtime's functions call its functions.
[[nodiscard]] inline bool is_cuda_driver(std::string_view name) {
    return name.starts_with("libcuda.so");
}

// How many of a library's CUDA functions are expensive to probe.
struct EntryCost {
    std::size_t functions = 0;  // that are traced, each place once
    std::size_t expensive = 0;  // of these: see symbols::EntryProbe
};

// Of the library that `fd` is open on; nothing if it cannot be read.
[[nodiscard]] std::optional<EntryCost> entry_cost(int fd);

}  // namespace gpusnoop::probes
