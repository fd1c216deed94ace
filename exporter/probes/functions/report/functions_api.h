// What the functions probe reports to programs that look at functions now and again, such as `top`.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

#include "exporter/probes/frame/api_resource.h"
#include "exporter/probes/functions/count/snapshot.h"

namespace gpusnoop::probes {

// Functions that would not fit are left out, the last of the order that was asked for, and counted.
inline constexpr std::size_t max_functions_bytes = std::size_t{8} << 20;

inline constexpr std::string_view functions_document_name = "functions";

// When something was, on two clocks: since 1970, and the kernel's monotonic one.
struct FunctionsMoment {
    std::chrono::nanoseconds real{};
    std::chrono::nanoseconds monotonic{};

    [[nodiscard]] static FunctionsMoment now();
};

// "functions": what each function has done since `since`, as JSON, as of the snapshot, which was
// taken at `now`. docs/api.md describes the parameters and the format.
[[nodiscard]] ApiResource functions_document(FunctionsSnapshot snapshot,
                                             const FunctionsMoment &since,
                                             const FunctionsMoment &now);

}  // namespace gpusnoop::probes
