// Small queries to the operating system.
#pragma once

#include <time.h>

#include <chrono>
#include <string>

namespace gpusnoop {

// The time of a clock, such as CLOCK_MONOTONIC, which BPF programs use in records.
[[nodiscard]] std::chrono::nanoseconds now_on(clockid_t clock);

// Raises the limit of open files to its maximum: attaching with perf events needs two per function.
void allow_many_files();

// Advice to append to the error message of this errno: for EMFILE, which limit it is and where it
// is raised. Empty for others.
[[nodiscard]] std::string limit_hint(int code);

}  // namespace gpusnoop
