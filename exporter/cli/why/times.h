// The launching threads of an exporter at one time: its page /api/v1/threads, which is not trusted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "exporter/base/result.h"
#include "exporter/probes/host_time/process_times.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::why {

struct Process {
    std::uint32_t pid = 0;
    std::uint64_t threads = 0;
    processes::ProcessNames names;
    probes::ProcessTimes times;
};

struct Times {
    std::uint64_t elapsed_ns = 0;              // since the exporter began to count
    std::map<std::string, Process> processes;  // by the ids of the document
};

// Texts are printable. Errors say why the document is wrong; it may contain anything.
[[nodiscard]] Result<Times> parse_times(std::string_view json);

}  // namespace gpusnoop::why
