// Text from other sources as valid UTF-8, labels and HTML; and its parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop {

// One step through a string that may not be UTF-8. `size` bytes (at least 1) are one character if
// `valid`, else the longest part of a character that was cut short or cannot be one.
struct Utf8Step {
    std::size_t size;
    bool valid;
};

// The first step of `bytes`, which is not empty.
[[nodiscard]] Utf8Step utf8_step(std::string_view bytes);

// Offset of the first byte that is not part of a valid character, npos if there is none.
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view bytes);

// `bytes` as a label value: ends at the first NUL (kernel strings are padded with them), invalid
// sequences and control characters (C0, DEL and C1) each become U+FFFD, and the result is cut at a
// character boundary to at most `max_bytes` bytes.
[[nodiscard]] std::string to_valid_utf8(std::string_view bytes, std::size_t max_bytes);

// Replaces with U+FFFD each character that a terminal or a browser might obey, or that changes how
// the text beside it is read: controls (C0, DEL, C1), line and paragraph separators and marks for
// the direction of writing. Invalid UTF-8 becomes U+FFFD too.
[[nodiscard]] std::string printable(std::string_view text);

// The same for each line of a text whose line breaks the exporter wrote.
[[nodiscard]] std::string printable_lines(std::string_view text);

// The code point of one valid character, if printable() would replace it.
[[nodiscard]] std::optional<unsigned> misleading_code(std::string_view character);

// Quotes user input in a message: at most 64 bytes of it between double quotes, and "..." for the
// rest.
[[nodiscard]] std::string in_quotes(std::string_view bytes);

// As the kernel writes addresses below /proc: lower case, without a prefix.
[[nodiscard]] std::string hexadecimal(std::uint64_t value);
// The same as a C literal: 0x7f00.
[[nodiscard]] std::string hexadecimal_literal(std::uint64_t value);

// An ASCII digit, whatever the locale is.
[[nodiscard]] constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

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

// `text` for HTML or XML content and quoted attributes: valid UTF-8, no markup, no characters that
// XML forbids, no marks that change the direction of the text beside it, at most `max_bytes` bytes
// before escaping.
[[nodiscard]] std::string escape_html(std::string_view text, std::size_t max_bytes = 128);

// For names of libraries, kernels and programs, which come from processes.
inline constexpr std::size_t max_label_bytes = 128;

}  // namespace gpusnoop
