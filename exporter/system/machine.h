// Small queries to the operating system.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop {

// The time of a clock, such as CLOCK_MONOTONIC, which BPF programs use in records.
[[nodiscard]] std::chrono::nanoseconds now_on(clockid_t clock);

// With fewer open files nothing is begun: what fails then can have another error than EMFILE,
// because libbpf takes a file that cannot be opened for a feature that the kernel lacks.
inline constexpr std::uint64_t least_open_files = 128;
// With fewer, a probe may not start, or a library may not be attached to. By default, 330 are open
// while no process uses CUDA.
inline constexpr std::uint64_t enough_open_files = 512;
// Raises the limit of open files to its maximum: attaching with perf events needs two per function.
// EMFILE: that is less than the least. If it is not enough, a line in the log says so.
[[nodiscard]] Result<> allow_many_files();

// Whether an eighth of the limit is free, for clients and for children. The number of the next file
// is taken for the number of open ones.
[[nodiscard]] bool has_spare_files();

// Advice to append to the error message of this errno: for EMFILE, which limit it is and where it
// is raised. Empty for others.
[[nodiscard]] std::string limit_hint(int code);

}  // namespace gpusnoop
