// What /proc says of a process. All of it may be gone, or another process's, by the next line.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "exporter/base/result.h"
#include "exporter/processes/cgroup.h"

namespace gpusnoop::processes {

// When the process started, since boot, in whole clock ticks (10 ms). The code of the failure is
// ENOENT or ESRCH when there is no process.
Result<std::chrono::nanoseconds> start_time(std::uint32_t tgid);

// The process that started it, or took it over.
std::optional<std::uint32_t> parent_of(std::uint32_t tgid);

// The name of its first thread: untrusted bytes; empty if it cannot be read.
std::string name_of(std::uint32_t tgid);

enum class Presence {
    running,
    gone,    // there is none, or another one with its id
    unsure,  // /proc could not be read
};

// What became of the process that started then.
Presence presence(std::uint32_t tgid, std::chrono::nanoseconds started);

// Path of its program, in its own mount namespace: untrusted bytes; empty if it cannot be read.
std::string executable_path(std::uint32_t tgid);

// From its cgroups; empty on the host and where it cannot be read.
ContainerIdentity container_of(std::uint32_t tgid);

}  // namespace gpusnoop::processes
