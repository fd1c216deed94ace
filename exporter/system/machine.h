// Small questions to the operating system.
#pragma once

#include <time.h>

#include <chrono>
#include <string>

namespace gpusnoop {

// What a clock says, such as CLOCK_MONOTONIC, which is the kernel's in records.
[[nodiscard]] std::chrono::nanoseconds now_on(clockid_t clock);

// Raises the limit of open files as far as it goes: attaching by perf takes two per function.
void allow_many_files();

// What to do about a failure of this errno, to be put behind its sentence: for EMFILE, which limit
// it is and where it is raised. Empty for others.
[[nodiscard]] std::string limit_hint(int code);

}  // namespace gpusnoop
