// Finds the format that a client prefers (RFC 9110, 12.5.1).
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "exporter/base/text/words.h"
#include "exporter/metrics/text.h"

namespace gpusnoop::metrics {

namespace {

std::string lower(std::string_view text) {
    std::string lowered(text);
    for (char &c : lowered) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return lowered;
}

// Takes the text up to the next unquoted `separator`, and the separator, off the front of `rest`.
std::string_view take(std::string_view &rest, char separator) {
    bool quoted = false;
    std::size_t at = 0;
    for (; at < rest.size() && (quoted || rest[at] != separator); at++) {
        if (rest[at] == '"') {
            quoted = !quoted;
        } else if (quoted && rest[at] == '\\') {
            at++;
        }
    }
    at = std::min(at, rest.size());
    const std::string_view part = rest.substr(0, at);
    rest.remove_prefix(std::min(at + 1, rest.size()));
    return trim(part);
}

// A range such as `text/plain;version=0.0.4;q=0.5`.
struct Range {
    std::string type;
    std::string version;  // empty: any
    double q = 1;
};

Range parse_range(std::string_view text) {
    Range range;
    range.type = lower(take(text, ';'));
    while (!text.empty()) {
        std::string_view value = take(text, ';');
        const std::string name = lower(take(value, '='));
        value = trim(value);
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
            value = value.substr(1, value.size() - 2);
        }
        if (name == "version") {
            range.version = value;
        } else if (name == "q") {
            double q = 0;
            const char *end = value.data() + value.size();
            const auto [stop, error] = std::from_chars(value.data(), end, q);
            // An invalid weight means that the range is not wanted.
            range.q = error == std::errc{} && stop == end && q >= 0 && q <= 1 ? q : 0;
        }
    }
    return range;
}

// The format for a range, if any. Ranges that cover many types come from browsers and tools, which
// expect text.
std::optional<Format> format_of(const Range &range) {
    if (range.type == "application/openmetrics-text") {
        return range.version.empty() || range.version == "1.0.0"
                   ? std::optional(Format::openmetrics)
                   : std::nullopt;
    }
    const bool is_text =
        range.type == "text/plain" && (range.version.empty() || range.version == "0.0.4");
    return is_text || range.type == "text/*" || range.type == "*/*" ? std::optional(Format::text)
                                                                    : std::nullopt;
}

}  // namespace

Format negotiate(std::string_view accept) {
    Format best = Format::text;
    double best_q = 0;
    while (!accept.empty()) {
        const Range range = parse_range(take(accept, ','));
        const auto format = format_of(range);
        if (format && range.q > best_q) {  // of equal weights, the first
            best = *format;
            best_q = range.q;
        }
    }
    return best;
}

}  // namespace gpusnoop::metrics
