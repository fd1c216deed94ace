// Numbers as on pages, and counts of a text's occurrences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace harness {

inline double number(std::uint64_t value) {
    return static_cast<double>(value);
}

inline std::size_t count(const std::string &text, const std::string &part) {
    std::size_t times = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        times++;
    }
    return times;
}

}  // namespace harness
