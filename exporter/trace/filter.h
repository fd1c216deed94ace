// Selects the processes of a trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "exporter/base/glob.h"
#include "exporter/trace/options.h"

namespace gpusnoop::trace {

// By the name of its process.
[[nodiscard]] inline bool wants_comm(const Options &options, const std::string &comm) {
    return options.comm.empty() || matches_glob(options.comm, comm);
}

// By its process's id, if the BPF programs do not filter by it.
[[nodiscard]] inline bool wants_pid(const Options &options, std::uint32_t pid) {
    return options.pids.empty() || std::ranges::find(options.pids, pid) != options.pids.end();
}

// By the id of the process that started its process.
[[nodiscard]] inline bool wants_ppid(const Options &options, std::uint32_t ppid) {
    return options.ppids.empty() || std::ranges::find(options.ppids, ppid) != options.ppids.end();
}

}  // namespace gpusnoop::trace
