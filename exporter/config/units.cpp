#include "exporter/config/units.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>

namespace gpusnoop::config {

namespace {

struct Unit {
    std::string_view suffix;
    std::uint64_t factor;
};

// Ascending, so that the largest unit that divides a value is the last that fits.
constexpr Unit durations[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
constexpr Unit short_durations[] = {{"ns", 1},
                                    {"us", 1'000},
                                    {"ms", 1'000'000},
                                    {"s", 1'000'000'000},
                                    {"m", 60'000'000'000},
                                    {"h", 3'600'000'000'000}};
constexpr Unit sizes[] = {{"", 1}, {"KiB", 1U << 10U}, {"MiB", 1U << 20U}};

template <std::size_t N>
std::optional<std::uint64_t> parse_with_unit(std::string_view text, const Unit (&units)[N]) {
    std::uint64_t number = 0;
    const char *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{}) {
        return std::nullopt;
    }
    const std::string_view suffix(stop, static_cast<std::size_t>(end - stop));
    for (const Unit &unit : units) {
        // The limit keeps the value in the range of std::chrono's signed type.
        if (suffix == unit.suffix &&
            number <= std::numeric_limits<std::int64_t>::max() / unit.factor) {
            return number * unit.factor;
        }
    }
    return std::nullopt;
}

template <std::size_t N>
std::string text_with_unit(std::uint64_t value, const Unit (&units)[N]) {
    const Unit *best = &units[0];
    for (const Unit &unit : units) {
        if (value != 0 && value % unit.factor == 0) {
            best = &unit;
        }
    }
    return std::to_string(value / best->factor) + std::string(best->suffix);
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
    if (const auto value = parse_with_unit(text, durations)) {
        return std::chrono::milliseconds(static_cast<std::int64_t>(*value));
    }
    return std::nullopt;
}

std::string to_text(std::chrono::milliseconds duration) {
    return text_with_unit(static_cast<std::uint64_t>(duration.count()), durations);
}

std::optional<std::chrono::nanoseconds> parse_short_duration(std::string_view text) {
    if (const auto value = parse_with_unit(text, short_durations)) {
        return std::chrono::nanoseconds(static_cast<std::int64_t>(*value));
    }
    return std::nullopt;
}

std::string short_text(std::chrono::nanoseconds duration) {
    return text_with_unit(static_cast<std::uint64_t>(duration.count()), short_durations);
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
    return parse_with_unit(text, sizes);
}

std::string size_text(std::uint64_t bytes) {
    return text_with_unit(bytes, sizes);
}

std::optional<std::uint32_t> parse_percent(std::string_view text) {
    constexpr Unit percents[] = {{"%", 1}};
    const auto percent = text == "0" ? 0 : parse_with_unit(text, percents);
    return percent && *percent <= std::numeric_limits<std::uint32_t>::max()
               ? std::optional(static_cast<std::uint32_t>(*percent))
               : std::nullopt;
}

std::string percent_text(std::uint32_t percent) {
    return percent == 0 ? "0" : std::to_string(percent) + "%";
}

bool is_metric_name(std::string_view name) {
    const auto is_letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
    };
    return !name.empty() && is_letter(name.front()) &&
           std::all_of(name.begin(), name.end(),
                       [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace gpusnoop::config
