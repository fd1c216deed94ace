// What a probe can tell besides its families: a page of its own under /api/v1/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop::probes {

// What a request asks for, decoded: values by name. Both come from the client and may be anything.
using QueryParameters = std::map<std::string, std::string>;

// A number that a parameter gives, from `least` on.
[[nodiscard]] Result<std::uint32_t> read_parameter(const std::string &name,
                                                   const std::string &value, std::uint32_t least);

struct ApiResponse {
    std::string content_type;
    std::string text;
};

// A copy of what a probe knew at one time. It is taken by the aggregating thread, which must not be
// kept from its work, and written down by the thread that serves it.
struct ApiResource {
    std::string name;  // of its page: "allocations" is /api/v1/allocations
    // For any thread, any number of times. An error says what is wrong with the parameters.
    std::function<Result<ApiResponse>(const QueryParameters &)> write;
};

}  // namespace gpusnoop::probes
