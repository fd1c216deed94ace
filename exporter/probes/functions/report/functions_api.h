// The functions probe's API for programs that poll the functions, such as `top`.
#pragma once

#include <chrono>
#include <string_view>

#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/functions/count/snapshot.h"

namespace gpusnoop::probes {

inline constexpr std::string_view functions_page_name = "functions";

// A time on two clocks: since 1970, and the kernel's monotonic one.
struct FunctionsMoment {
    std::chrono::nanoseconds real{};
    std::chrono::nanoseconds monotonic{};

    [[nodiscard]] static FunctionsMoment now();
};

// "functions": the counts of each function since `since`, as JSON, from the snapshot of `now`.
// docs/api.md describes the parameters and the format.
[[nodiscard]] ApiPage functions_page(FunctionsSnapshot snapshot, const FunctionsMoment &since,
                                     const FunctionsMoment &now);

}  // namespace gpusnoop::probes
