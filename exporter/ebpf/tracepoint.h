// What a tracepoint's record looks like.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

struct TracepointField {
    std::uint32_t offset = 0;
    std::uint32_t size = 0;
};

using TracepointFields = std::map<std::string, TracepointField, std::less<>>;

// From the text of a tracepoint's file `format`; lines that are none of a field are passed over.
[[nodiscard]] TracepointFields parse_tracepoint_format(std::string_view text);

// As the running kernel has it, from tracefs, wherever of the two usual places that is mounted. The
// code of the failure is ENOENT where there is no such tracepoint, or no tracefs.
[[nodiscard]] Result<TracepointFields> tracepoint_fields(const std::string &category,
                                                         const std::string &name);

}  // namespace gpusnoop::ebpf
