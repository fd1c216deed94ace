// Whether a response may be compressed.
#pragma once

#include <string_view>

namespace gpusnoop::http {

// Whether an Accept-Encoding header's value allows gzip: named, or "*", with a q above 0.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);

}  // namespace gpusnoop::http
