// Text for a terminal that fits. What comes from elsewhere is to be made printable() before.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpusnoop::top {

// Characters, as far as they can be told without tables: code points.
[[nodiscard]] std::size_t width_of(std::string_view text);
// At most so many of them. `text` is valid UTF-8.
[[nodiscard]] std::string cut(std::string_view text, std::size_t width);
// Padded with spaces to at least so many.
[[nodiscard]] std::string left_aligned(std::string text, std::size_t width);
[[nodiscard]] std::string right_aligned(std::string text, std::size_t width);

}  // namespace gpusnoop::top
