// Times of day as text.
#pragma once

#include <chrono>
#include <string>

namespace gpusnoop {

// RFC 3339, with 1 to 9 digits of the second: "2026-03-01T09:30:00.000000001Z". `since_epoch` is a
// time of CLOCK_REALTIME, from the year 1970 to 9999.
[[nodiscard]] std::string utc_time(std::chrono::nanoseconds since_epoch, int digits = 9);

}  // namespace gpusnoop
