#include "exporter/probes/host_time/process_times.h"

#include <nlohmann/json.hpp>

#include "exporter/base/seconds.h"

namespace gpusnoop::probes {

nlohmann::ordered_json to_json(const std::optional<CurrentCall> &call) {
    return call ? nlohmann::ordered_json{{"function", call->function},
                                         {"age_seconds", in_seconds(call->age_ns)}}
                : nlohmann::ordered_json();
}

}  // namespace gpusnoop::probes
