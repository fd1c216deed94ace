// Text for a terminal: nothing in it is obeyed, and it fits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop::top {

// Without anything that a terminal might obey, or that would change how what stands beside it is
// read: controls (C0, DEL, C1), line and paragraph separators and marks for the direction of
// writing are U+FFFD, as is what is not valid UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

// Characters, as far as they can be told without tables: code points.
[[nodiscard]] std::size_t width_of(std::string_view text);
// At most so many of them. `text` is valid UTF-8.
[[nodiscard]] std::string cut(std::string_view text, std::size_t width);
// Padded with spaces to at least so many.
[[nodiscard]] std::string left_aligned(std::string text, std::size_t width);
[[nodiscard]] std::string right_aligned(std::string text, std::size_t width);

// "0", "0.04", "12.3", "4567", "1.23M": at most seven characters, for any number from 0.
[[nodiscard]] std::string rate_text(double per_second);
// "312ns", "1.23ms", "45.6s"; "-" where there is none.
[[nodiscard]] std::string duration_text(std::optional<double> seconds);
// "3d 4h", "2h 5m", "1m 20s", "12s".
[[nodiscard]] std::string span_text(double seconds);

}  // namespace gpusnoop::top
