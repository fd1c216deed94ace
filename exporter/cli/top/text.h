// Fits text to a terminal's width. Text from other sources must be made printable() before.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace gpusnoop::top {

// Of what is not a screen.
inline constexpr std::size_t any_width = std::numeric_limits<std::size_t>::max();

// The number of code points: without tables, the best measure of the width.
[[nodiscard]] std::size_t width_of(std::string_view text);
// The first `width` characters. `text` is valid UTF-8.
[[nodiscard]] std::string cut(std::string_view text, std::size_t width);
// Padded with spaces to at least `width` characters.
[[nodiscard]] std::string left_aligned(std::string text, std::size_t width);
[[nodiscard]] std::string right_aligned(std::string text, std::size_t width);

}  // namespace gpusnoop::top
