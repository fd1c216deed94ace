// The parameters of the resources that list calls, /api/v1/slow_calls and /api/v1/in_flight.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/result.h"
#include "exporter/probes/frame/api_resource.h"

namespace gpusnoop::probes {

// The limit is one of calls.
struct CallsQuery : PidAndLimit {
    std::optional<std::string> function;
    std::optional<std::string> library;
    std::optional<std::string> comm;

    [[nodiscard]] bool asks_for(std::string_view its_function, std::string_view its_library,
                                std::string_view its_comm, std::uint32_t its_pid) const {
        return (!function || *function == its_function) && (!library || *library == its_library) &&
               (!comm || *comm == its_comm) && has(its_pid);
    }
};

// The error names the parameter that is wrong.
Result<CallsQuery> read_calls_query(const QueryParameters &parameters);

}  // namespace gpusnoop::probes
