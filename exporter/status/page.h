// The page at /, which people open first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/status/facts.h"

namespace gpusnoop::status {

// The page as HTML: whole without its script, and without external content. The script renews it
// (assets.h); with `refresh_seconds`, browsers reload it instead. It has at most max_page_bytes
// (lists.h).
[[nodiscard]] std::string page(const Facts &facts,
                               std::optional<std::uint32_t> refresh_seconds = std::nullopt);

// A browser may only show what we send.
inline constexpr std::string_view content_security_policy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";
// Of the page at /: it may also load our stylesheet and run our script, which asks us for the page.
inline constexpr std::string_view page_security_policy =
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace gpusnoop::status
