// The page at /, which a person opens first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/status/facts.h"

namespace gpusnoop::status {

// What is more than this is counted, not listed. Processes, call sites and slow calls are bounded
// by their overview.
inline constexpr std::size_t max_probes = 32;
inline constexpr std::size_t max_libraries = 30;
inline constexpr std::size_t max_frames = 16;  // of a slow call's stack

// The page as HTML: with no scripts and nothing from elsewhere. With `refresh_seconds` a browser
// reloads it by itself.
[[nodiscard]] std::string page(const Facts &facts,
                               std::optional<std::uint32_t> refresh_seconds = std::nullopt);

// What a browser may do with it: nothing but show it.
inline constexpr std::string_view content_security_policy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

}  // namespace gpusnoop::status
