#include "exporter/metrics/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "exporter/base/text/text.h"

namespace gpusnoop::metrics {

namespace {

constexpr std::string_view total_suffix = "_total";
constexpr std::size_t max_exemplar = 128;  // characters of names and values, by the format

// The number of characters in valid UTF-8.
std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

// The unit in a name, "" if it has none.
std::string_view unit_of(std::string_view name) {
    for (const std::string_view unit : {"bytes_per_second", "seconds", "bytes", "ratio"}) {
        if (name.size() > unit.size() && name.ends_with(unit) &&
            name[name.size() - unit.size() - 1] == '_') {
            return unit;
        }
    }
    return "";
}

// A plain loop: most texts have nothing to escape, and find_first_of() searches its list for every
// character.
void append_escaped(std::string &out, std::string_view text, bool quotes) {
    for (;;) {
        const auto next = std::ranges::find_if(
            text, [quotes](char c) { return c == '\\' || c == '\n' || (c == '"' && quotes); });
        out.append(text.begin(), next);
        if (next == text.end()) {
            return;
        }
        out += '\\';
        out += *next == '\n' ? 'n' : *next;
        text = {next + 1, text.end()};
    }
}

void append_label(std::string &out, std::string_view name, std::string_view value) {
    out += name;
    out += "=\"";
    append_escaped(out, value, true);
    out += '"';
}

}  // namespace

Text::Text(Format format, std::size_t expected) : is_openmetrics_(format == Format::openmetrics) {
    text_.reserve(expected);
}

void Text::append(std::string &text, std::uint64_t value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text.append(digits.data(), end);
}

// The fewest digits that are this number, and an exponent only where it is far from 1: the bounds
// of one histogram are then written in one way, as to_chars() alone prefers 5e-04 to 0.0005.
void Text::append(std::string &text, double value) {
    constexpr double exact = 9007199254740992.0;  // 2^53
    constexpr double smallest = 1e-9;             // a nanosecond
    constexpr double largest = 1e21;
    const double size = std::abs(value);
    if (std::isnan(value)) {
        text += "NaN";
    } else if (std::isinf(value)) {
        text += value > 0 ? "+Inf" : "-Inf";
    } else if (std::trunc(value) == value && size <= exact && !std::signbit(value)) {
        append(text, static_cast<std::uint64_t>(value));
    } else {
        const bool is_usual = size == 0 || (size >= smallest && size < largest);
        const auto format = is_usual ? std::chars_format::fixed : std::chars_format::scientific;
        std::array<char, 48> digits{};
        const auto end =
            std::to_chars(digits.data(), digits.data() + digits.size(), value, format).ptr;
        text.append(digits.data(), end);
    }
}

std::string Text::bound_text(double bound) const {
    std::string text;
    append(text, bound);
    if (is_openmetrics_ && std::isfinite(bound) && text.find_first_of(".e") == std::string::npos) {
        text += ".0";
    }
    return text;
}

std::string_view Text::type_name(std::string_view name, Type type) const {
    const std::string_view unknown = is_openmetrics_ ? "unknown" : "untyped";
    switch (type) {
        case Type::counter:
            return is_openmetrics_ && !name.ends_with(total_suffix) ? unknown : "counter";
        case Type::gauge:
            return "gauge";
        case Type::histogram:
            return "histogram";
        case Type::summary:
            return "summary";
        case Type::unknown:
            return unknown;
    }
    return unknown;
}

void Text::head(std::string_view name, std::string_view help, Type type) {
    const std::string_view type_text = type_name(name, type);
    if (is_openmetrics_ && type == Type::counter && name.ends_with(total_suffix)) {
        name.remove_suffix(total_suffix.size());
    }
    const auto line = [&](std::string_view what) {
        text_ += "# ";
        text_ += what;
        text_ += ' ';
        text_ += name;
        text_ += ' ';
    };
    if (!help.empty()) {
        line("HELP");
        // Quotes too, in OpenMetrics.
        append_escaped(text_, help, is_openmetrics_);
        text_ += '\n';
    }
    line("TYPE");
    text_ += type_text;
    text_ += '\n';
    if (const std::string_view unit = unit_of(name); is_openmetrics_ && !unit.empty()) {
        line("UNIT");
        text_ += unit;
        text_ += '\n';
    }
}

void Text::add_label(std::string_view name, std::string_view value) {
    if (value.empty()) {
        return;
    }
    labels_ += labels_.empty() ? "" : ",";
    append_label(labels_, name, value);
}

void Text::sample(std::string_view name, std::string_view suffix, std::string_view label,
                  std::string_view value) {
    text_ += name;
    text_ += suffix;
    if (!labels_.empty() || !label.empty()) {
        text_ += '{';
        text_ += labels_;
        if (!label.empty()) {
            text_ += labels_.empty() ? "" : ",";
            text_ += label;
            text_ += "=\"";
            text_ += value;
            text_ += '"';
        }
        text_ += '}';
    }
    text_ += ' ';
}

// OpenMetrics writes timestamps in seconds.
void Text::timestamp(std::int64_t at) {
    if (at == 0) {
        return;
    }
    text_ += ' ';
    if (is_openmetrics_) {
        number(static_cast<double>(at) / 1e3);
    } else {
        text_ += std::to_string(at);
    }
}

void Text::exemplar(std::string_view sample, const series::Exemplar &exemplar) {
    if (!is_openmetrics_ || !(sample.ends_with(total_suffix) || sample.ends_with("_bucket"))) {
        return;
    }
    std::size_t size = 0;
    for (const auto &[name, value] : exemplar.labels) {
        size += characters(name) + characters(value);
    }
    if (size > max_exemplar) {
        return;
    }
    text_ += " # {";
    for (const auto &[name, value] : exemplar.labels) {
        text_ += text_.back() == '{' ? "" : ",";
        append_label(text_, name, value);
    }
    text_ += "} ";
    number(exemplar.value);
    text_ += ' ';
    // To the millisecond, which is Prometheus' precision.
    const auto at = std::chrono::floor<std::chrono::milliseconds>(exemplar.at);
    number(static_cast<double>(at.count()) / 1e3);
}

std::string Text::finish() {
    text_ += is_openmetrics_ ? "# EOF\n" : "";
    return std::move(text_);
}

const char *content_type(Format format) {
    return format == Format::openmetrics
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

// Finds the format that a client prefers (RFC 9110, 12.5.1).

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
