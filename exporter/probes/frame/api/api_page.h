// A resource of the API under /api/v1/, which a probe provides besides its families.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop::probes {

// The decoded parameters of a request, by name. Names and values come from the client and may be
// anything.
using QueryParameters = std::map<std::string, std::string>;

// Parses the number in a parameter. It must not be less than `least`.
[[nodiscard]] Result<std::uint32_t> read_parameter(const std::string &name,
                                                   const std::string &value, std::uint32_t least);

struct ApiResponse {
    std::string content_type;
    std::string text;
};

// A copy of a probe's data at one time. The aggregating thread only makes the copy; the thread that
// serves it writes the response.
struct ApiPage {
    std::string name;  // of its page: "allocations" is /api/v1/allocations
    // For any thread, any number of times. An error describes the problem with the parameters.
    std::function<Result<ApiResponse>(const QueryParameters &)> write;
};

}  // namespace gpusnoop::probes
