#include "exporter/cli/top/text.h"

#include <algorithm>

#include "exporter/base/text/text.h"

namespace gpusnoop::top {

std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string cut(std::string_view text, std::size_t width) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < width && at < text.size(); i++) {
        at += utf8_step(text.substr(at)).size;
    }
    return std::string(text.substr(0, at));
}

std::string left_aligned(std::string text, std::size_t width) {
    const std::size_t own = width_of(text);
    return text + std::string(own < width ? width - own : 0, ' ');
}

std::string right_aligned(std::string text, std::size_t width) {
    const std::size_t own = width_of(text);
    return std::string(own < width ? width - own : 0, ' ') + text;
}

}  // namespace gpusnoop::top
