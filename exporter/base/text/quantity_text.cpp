#include "exporter/base/text/quantity_text.h"

#include <fmt/format.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

namespace gpusnoop {

namespace {

// Three significant digits, or all digits of the whole part if it has more.
std::string three_digits(double value) {
    return value < 9.995   ? fmt::format("{:.2f}", value)
           : value < 99.95 ? fmt::format("{:.1f}", value)
                           : fmt::format("{:.0f}", value);
}

}  // namespace

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

std::string age_text(double seconds) {
    constexpr double minute = 60;
    return seconds < minute ? duration_text(seconds) : span_text(seconds);
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::array<std::string_view, 6> units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        return std::to_string(bytes) + " B";
    }
    double amount = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    while (amount >= 1023.5 && unit + 1 < units.size()) {
        amount /= 1024;
        unit++;
    }
    return three_digits(amount) + ' ' + std::string(units.at(unit));
}

std::string count_text(std::uint64_t count) {
    const std::string digits = std::to_string(count);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); i++) {
        if (i > 0 && (digits.size() - i) % 3 == 0) {
            text += ',';
        }
        text += digits[i];
    }
    return text;
}

std::string utc_time(std::chrono::nanoseconds since_epoch, int digits) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
    const std::time_t time = static_cast<std::time_t>(seconds.count());
    std::tm utc{};
    gmtime_r(&time, &utc);
    const auto fraction = fmt::format("{:09}", (since_epoch - seconds).count());
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{}Z", utc.tm_year + 1900,
                       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                       std::string_view(fraction).substr(0, static_cast<std::size_t>(digits)));
}

}  // namespace gpusnoop
