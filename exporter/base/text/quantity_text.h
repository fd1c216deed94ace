// Rates, durations and sizes for people to read: short, with three significant digits.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace gpusnoop {

// "0", "0.04", "12.3", "4567", "1.23M": at most seven characters, for any number from 0.
[[nodiscard]] std::string rate_text(double per_second);

// "312ns", "1.23ms", "45.6s"; "-" if there is no value.
[[nodiscard]] std::string duration_text(std::optional<double> seconds);

// "3d 4h", "2h 5m", "1m 20s", "12s".
[[nodiscard]] std::string span_text(double seconds);

// A duration that goes on: "1.23ms", "45.6s"; from a minute on "1m 30s".
[[nodiscard]] std::string age_text(double seconds);

// "512 B", "1.50 KiB", "8.00 GiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

// "0", "999", "1,234,567".
[[nodiscard]] std::string count_text(std::uint64_t count);

// RFC 3339, with 1 to 9 digits of the second: "2026-03-01T09:30:00.000000001Z". `since_epoch` is a
// time of CLOCK_REALTIME, from the year 1970 to 9999.
[[nodiscard]] std::string utc_time(std::chrono::nanoseconds since_epoch, int digits = 9);

}  // namespace gpusnoop
