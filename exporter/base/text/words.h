// Parts of texts.
#pragma once

#include <string_view>

namespace gpusnoop {

// The text without leading and trailing blanks and tabs.
[[nodiscard]] constexpr std::string_view trim(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The part after the last slash; the whole path if it has no slash.
[[nodiscard]] constexpr std::string_view last_part(std::string_view path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// Removes the text up to the next separator, and the separator, from `rest`. Returns the text.
constexpr std::string_view take_until(std::string_view &rest, char separator) {
    const std::size_t found = rest.find(separator);
    const std::string_view part = rest.substr(0, found);
    rest.remove_prefix(found == std::string_view::npos ? rest.size() : found + 1);
    return part;
}

}  // namespace gpusnoop
