// Text in HTML and SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpusnoop {

// `text` for HTML or XML content and quoted attributes: valid UTF-8, no markup, no characters that
// XML forbids, no marks that change the direction of the text beside it, at most `max_bytes` bytes
// before escaping.
[[nodiscard]] std::string escape_html(std::string_view text, std::size_t max_bytes = 128);

}  // namespace gpusnoop
