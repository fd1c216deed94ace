// The page at /, which people open first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/status/facts.h"

namespace gpusnoop::status {

// Items over these limits are counted, not listed. Processes, call sites and slow calls are limited
// by their overview.
inline constexpr std::size_t max_probes = 32;
inline constexpr std::size_t max_libraries = 30;
inline constexpr std::size_t max_frames = 16;  // of a slow call's stack

// The page as HTML: without scripts and without external content. With `refresh_seconds`, browsers
// reload it.
[[nodiscard]] std::string page(const Facts &facts,
                               std::optional<std::uint32_t> refresh_seconds = std::nullopt);

// A browser may only show the page.
inline constexpr std::string_view content_security_policy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

}  // namespace gpusnoop::status
