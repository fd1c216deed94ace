// The arguments of running processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop::processes {

// The first 8 KiB, each with a NUL behind it. From any thread; one at a time asks. Never waits long
// for a process, or for those of one user: see ProcessReader. ETIMEDOUT: it does not answer, or it
// is left alone.
Result<std::string> arguments_of(std::uint32_t tgid);

// Ends the child that reads them if it was idle for so long.
void rest_reader_of_arguments(std::chrono::steady_clock::duration unused);

}  // namespace gpusnoop::processes
