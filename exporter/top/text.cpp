#include "exporter/top/text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>

#include "exporter/base/text.h"

namespace gpusnoop::top {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

unsigned byte_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]);
}

// Of a valid character of one to three bytes; all that is not printed is among them.
unsigned code_point(std::string_view character) {
    switch (character.size()) {
        case 1:
            return byte_at(character, 0);
        case 2:
            return (byte_at(character, 0) & 0x1FU) << 6U | (byte_at(character, 1) & 0x3FU);
        case 3:
            return (byte_at(character, 0) & 0x0FU) << 12U | (byte_at(character, 1) & 0x3FU) << 6U |
                   (byte_at(character, 2) & 0x3FU);
        default:
            return 0xFFFFU;
    }
}

bool is_harmless(unsigned code) {
    const auto between = [code](unsigned first, unsigned last) {
        return code >= first && code <= last;
    };
    return !(between(0, 0x1F) || between(0x7F, 0x9F) ||             // controls
             code == 0x061C || between(0x200B, 0x200F) ||           // marks of direction, no width
             between(0x2028, 0x202E) || between(0x2060, 0x206F) ||  // separators, overrides
             code == 0xFEFF);
}

// Three digits, or as many as a whole number has.
std::string three_digits(double value) {
    return value < 9.995   ? fmt::format("{:.2f}", value)
           : value < 99.95 ? fmt::format("{:.1f}", value)
                           : fmt::format("{:.0f}", value);
}

}  // namespace

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Utf8Step step = utf8_step(text);
        const std::string_view piece = text.substr(0, step.size);
        out += step.valid && is_harmless(code_point(piece)) ? piece : replacement;
        text.remove_prefix(step.size);
    }
    return out;
}

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

std::string rate_text(double per_second) {
    constexpr double fewest = 0.005;
    if (!(per_second > 0)) {
        return "0";
    }
    if (per_second < fewest) {
        return "<0.01";
    }
    if (per_second < 99'999.5) {
        return three_digits(per_second);
    }
    return per_second < 999.5e3    ? three_digits(per_second / 1e3) + "k"
           : per_second < 999.5e6  ? three_digits(per_second / 1e6) + "M"
           : per_second < 999.5e9  ? three_digits(per_second / 1e9) + "G"
           : per_second < 999.5e12 ? three_digits(per_second / 1e12) + "T"
                                   : ">999T";
}

std::string duration_text(std::optional<double> seconds) {
    if (!seconds) {
        return "-";
    }
    return *seconds < 999.5e-9   ? fmt::format("{:.0f}ns", *seconds * 1e9)
           : *seconds < 999.5e-6 ? three_digits(*seconds * 1e6) + "us"
           : *seconds < 999.5e-3 ? three_digits(*seconds * 1e3) + "ms"
                                 : three_digits(*seconds) + "s";
}

std::string span_text(double seconds) {
    const auto whole = static_cast<std::uint64_t>(std::max(seconds, 0.0));
    const std::uint64_t minutes = whole / 60;
    const std::uint64_t hours = minutes / 60;
    return hours >= 24   ? fmt::format("{}d {}h", hours / 24, hours % 24)
           : hours > 0   ? fmt::format("{}h {}m", hours, minutes % 60)
           : minutes > 0 ? fmt::format("{}m {}s", minutes, whole % 60)
                         : fmt::format("{}s", whole);
}

}  // namespace gpusnoop::top
