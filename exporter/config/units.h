// Durations, sizes and names as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop::config {

// "500ms", "10s", "5m", "1h"; and the reverse.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
[[nodiscard]] std::string to_text(std::chrono::milliseconds duration);

// The same down to the nanosecond: "250ns", "10us".
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_short_duration(std::string_view text);
[[nodiscard]] std::string short_text(std::chrono::nanoseconds duration);

// "4096", "64KiB", "4MiB" in bytes; and the reverse.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// "0", "5%"; and the reverse.
[[nodiscard]] std::optional<std::uint32_t> parse_percent(std::string_view text);
[[nodiscard]] std::string percent_text(std::uint32_t percent);

// Whether Prometheus accepts `name` as a metric name.
[[nodiscard]] bool is_metric_name(std::string_view name);

}  // namespace gpusnoop::config
