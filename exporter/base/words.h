// Parts of texts.
#pragma once

#include <string_view>

namespace gpusnoop {

// Without the blanks and tabs around it.
[[nodiscard]] constexpr std::string_view trim(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Behind the last slash, if there is one.
[[nodiscard]] constexpr std::string_view last_part(std::string_view path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace gpusnoop
