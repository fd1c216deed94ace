#include "exporter/probes/cuda/attach/functions.h"

#include <algorithm>
#include <array>
#include <vector>

#include "bpf/cuda/functions.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/exits/entry_probe.h"
#include "exporter/symbols/names/cuda_errors.h"

namespace gpusnoop::probes {

namespace {

// The number of a function is its index in the table.
enum Number : std::uint16_t {
#define NUMBER(symbol, name, operation, variant, positions) number_##symbol,
    CUDA_RUNTIME_FUNCTIONS(NUMBER) CUDA_DRIVER_FUNCTIONS(NUMBER) CUDA_PROFILER_FUNCTIONS(NUMBER)
#undef NUMBER
        function_count
};
static_assert(function_count < CUDA_NO_FUNCTION && function_count <= CUDA_TRACED_FUNCTIONS);

constexpr bool shows_errors(cuda_operation operation) {
    return operation != CUDA_GET_KERNEL && operation != CUDA_GET_FUNCTION;
}

// The flags in the attach cookie that follow from the function itself.
constexpr std::uint64_t flags_of(std::string_view symbol, CudaApi api) {
    const bool is_per_thread = symbol.ends_with("_ptsz") || symbol.ends_with("_ptds");
    return (api == CudaApi::driver ? CUDA_OF_DRIVER : 0) | (is_per_thread ? CUDA_PER_THREAD : 0);
}

#define ROW(symbol, name, operation, variant, positions, api)                         \
    CudaFunction{#symbol,                                                             \
                 #name,                                                               \
                 CUDA_COOKIE(number_##symbol, CUDA_##operation, variant, positions) | \
                     flags_of(#symbol, api),                                          \
                 CUDA_##operation,                                                    \
                 api,                                                                 \
                 CUDA_##operation == CUDA_REGISTER,                                   \
                 shows_errors(CUDA_##operation)},
#define RUNTIME(symbol, name, operation, variant, positions) \
    ROW(symbol, name, operation, variant, positions, CudaApi::runtime)
#define DRIVER(symbol, name, operation, variant, positions) \
    ROW(symbol, name, operation, variant, positions, CudaApi::driver)
#define PROFILER(symbol, name, operation, variant, positions) \
    ROW(symbol, name, operation, variant, positions, CudaApi::cupti)

constexpr std::array<CudaFunction, function_count> functions = {{CUDA_RUNTIME_FUNCTIONS(
    RUNTIME) CUDA_DRIVER_FUNCTIONS(DRIVER) CUDA_PROFILER_FUNCTIONS(PROFILER)}};

#undef PROFILER
#undef DRIVER
#undef RUNTIME
#undef ROW

}  // namespace

std::span<const CudaFunction> cuda_functions() {
    return functions;
}

const CudaFunction *function_of(std::uint64_t cookie) {
    // Its lowest bits (CUDA_COOKIE_FUNCTION).
    const std::size_t number = cookie & 0xffffU & ~static_cast<std::uint64_t>(CUDA_FUNCTION_FLAGS);
    return number < functions.size() ? &functions[number] : nullptr;
}

bool launches_kernel(std::uint64_t cookie) {
    const CudaFunction *const function = function_of(cookie);
    return function != nullptr && CUDA_LAUNCHES_KERNEL(function->operation);
}

bool allocates(std::uint64_t cookie) {
    const CudaFunction *const function = function_of(cookie);
    return function != nullptr &&
           (function->operation <= CUDA_ALLOCATE_FROM_POOL || function->operation == CUDA_MAP);
}

std::string_view symbol_of(std::uint16_t function) {
    const std::size_t number = function & ~unsigned{CUDA_FUNCTION_FLAGS};
    return number < functions.size() ? functions.at(number).symbol : std::string_view();
}

std::string_view error_name(CudaApi api, int code) {
    switch (api) {
        case CudaApi::runtime:
            return cuda_error_name(code);
        case CudaApi::driver:
            return cuda_driver_error_name(code);
        case CudaApi::cupti:
            return cupti_error_name(code);
    }
    return {};
}

std::optional<EntryCost> entry_cost(int fd) {
    const auto elf = symbols::ElfFile::open(fd);
    if (!elf) {
        return std::nullopt;
    }
    std::vector<std::string_view> names;
    for (const CudaFunction &function : cuda_functions()) {
        names.push_back(function.symbol);
    }
    auto found = elf->find_functions(names);
    if (!found) {
        return std::nullopt;
    }
    std::ranges::sort(*found, {}, &symbols::FoundFunction::file_offset);
    const auto aliases = std::ranges::unique(*found, {}, &symbols::FoundFunction::file_offset);
    found->erase(aliases.begin(), aliases.end());
    const auto probes = symbols::find_entry_probes(*elf, fd, *found);
    return EntryCost{probes.size(), static_cast<std::size_t>(std::ranges::count_if(
                                        probes, &symbols::EntryProbe::is_expensive))};
}

}  // namespace gpusnoop::probes
