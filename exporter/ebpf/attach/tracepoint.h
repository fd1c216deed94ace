// Reads the layout of a tracepoint's record.
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

// Parses the text of a tracepoint's file `format`; skips lines that describe no field.
[[nodiscard]] TracepointFields parse_tracepoint_format(std::string_view text);

// What mounts tracefs, for messages.
constexpr std::string_view mount_tracefs = "mount -t tracefs tracefs /sys/kernel/tracing";

// As the running kernel describes it, from tracefs, which is mounted at one of the two usual
// places. Unsupported if the kernel has no such tracepoint or no tracefs, or if tracefs is not
// mounted; EACCES if it cannot be read.
[[nodiscard]] Result<TracepointFields> tracepoint_fields(const std::string &category,
                                                         const std::string &name);

}  // namespace gpusnoop::ebpf
