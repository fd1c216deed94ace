// What /proc says of a process. All of it may be gone, or another process's, by the next line.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "exporter/discovery/cgroup.h"

namespace gpusnoop::discovery {

// When the process started, since boot, in whole clock ticks (10 ms). Nothing: there is no process.
std::optional<std::chrono::nanoseconds> start_time(std::uint32_t tgid);

// Is it still the process that started then?
bool is_running(std::uint32_t tgid, std::chrono::nanoseconds started);

// Path of its program, in its own mount namespace: untrusted bytes; empty if it cannot be read.
std::string executable_path(std::uint32_t tgid);

// From its cgroups; empty on the host and where it cannot be read.
ContainerIdentity container_of(std::uint32_t tgid);

}  // namespace gpusnoop::discovery
