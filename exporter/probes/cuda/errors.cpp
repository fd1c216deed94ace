#include "exporter/probes/cuda/errors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tsl/robin_map.h>

#include "exporter/probes/cuda/attach/functions.h"

namespace gpusnoop::probes {

namespace {

// Per process. A program can return any number; only a hostile one returns many without a name.
constexpr std::size_t max_errors = 1'000;
// cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY have one number.
constexpr std::int32_t out_of_memory = 2;
constexpr std::uint64_t surplus_errors = std::uint64_t{1} << 63;  // no key of a single one

// One after the last number: no function has it.
std::size_t number_of(const cuda_record &head) {
    return std::min<std::size_t>(head.function & ~CUDA_FUNCTION_FLAGS, cuda_functions().size());
}

const CudaFunction *function_of_record(const cuda_record &head) {
    const std::size_t number = number_of(head);
    return number < cuda_functions().size() ? &cuda_functions()[number] : nullptr;
}

std::string name_of_error(const CudaFunction *function, std::int32_t result) {
    const std::string name(
        probes::error_name(function != nullptr ? function->api : CudaApi::runtime, result));
    return name.empty() ? "code_" + std::to_string(result) : name;
}

}  // namespace

struct CudaErrors::State final : PartState {
    static constexpr Part part = Part::errors;

    tsl::robin_map<std::uint64_t, series::Slot> slots;  // function << 32 | code
    CallCounts counts;
};

const CallCounts &CudaErrors::counts(const Process &process) {
    return state_of<State>(process).counts;
}

void CudaErrors::started(Process &process) {
    add_state<State>(process);
}

bool CudaErrors::shows(const cuda_record &head) {
    const CudaFunction *const function = function_of_record(head);
    return function == nullptr || function->shows_errors;
}

void CudaErrors::count(Process &process, const cuda_record &head) {
    State &state = state_of<State>(process);
    auto &slots = state.slots;
    const std::uint64_t of_function = std::uint64_t{number_of(head)} << 32;
    std::uint64_t key = of_function | static_cast<std::uint32_t>(head.result);
    auto found = slots.find(key);
    if (found == slots.end() && slots.size() >= max_errors) {
        key = of_function | surplus_errors;
        found = slots.find(key);
    }
    if (found == slots.end()) {
        const CudaFunction *const function = function_of_record(head);
        const std::string_view name = function != nullptr ? function->name : "unknown";
        const std::string error =
            key >= surplus_errors ? "other" : name_of_error(function, head.result);
        found = slots
                    .try_emplace(key, families_.errors.slot(process.owner,
                                                            labels_of(process, {name, error})))
                    .first;
    }
    families_.errors.add(found->second, 1);
    CallCounts &counts = state.counts;
    counts.errors++;
    if (head.result == out_of_memory) {
        counts.out_of_memory++;
    }
}

}  // namespace gpusnoop::probes
