// The functions probe's API for programs that poll the functions, such as `top`.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

#include "exporter/probes/frame/api_resource.h"
#include "exporter/probes/functions/count/snapshot.h"

namespace gpusnoop::probes {

// Functions that do not fit are omitted and counted, beginning with the last in the selected order.
inline constexpr std::size_t max_functions_bytes = std::size_t{8} << 20;

inline constexpr std::string_view functions_document_name = "functions";

// A time on two clocks: since 1970, and the kernel's monotonic one.
struct FunctionsMoment {
    std::chrono::nanoseconds real{};
    std::chrono::nanoseconds monotonic{};

    [[nodiscard]] static FunctionsMoment now();
};

// "functions": the counts of each function since `since`, as JSON, from the snapshot of `now`.
// docs/api.md describes the parameters and the format.
[[nodiscard]] ApiResource functions_document(FunctionsSnapshot snapshot,
                                             const FunctionsMoment &since,
                                             const FunctionsMoment &now);

}  // namespace gpusnoop::probes
