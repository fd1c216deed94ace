// Compresses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop {

// `text` as a gzip file, at zlib's fastest level: even so, metrics shrink to a twentieth. Empty if
// memory runs out or the text has 4 GiB or more.
[[nodiscard]] std::optional<std::string> gzip(std::string_view text);

}  // namespace gpusnoop
