// Compressed responses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop::http {

// Whether an Accept-Encoding header's value allows gzip: named, or "*", with a q above 0.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);

// `text` as a gzip file, at zlib's fastest level: even so, metrics shrink to a twentieth. Empty if
// memory runs out or the text has 4 GiB or more.
[[nodiscard]] std::optional<std::string> gzip(std::string_view text);

}  // namespace gpusnoop::http
