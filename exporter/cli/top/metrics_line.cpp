#include "exporter/cli/top/metrics_line.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace gpusnoop::top {

namespace {

// Takes `text` up to the quote that ends a label's value; empty if it does not end.
std::optional<std::string> take_value(std::string_view &text) {
    std::string value;
    for (std::size_t i = 0; i < text.size(); i++) {
        if (text[i] == '"') {
            text.remove_prefix(i + 1);
            return value;
        }
        if (text[i] == '\\' && i + 1 < text.size()) {
            i++;
            value += text[i] == 'n' ? '\n' : text[i];
        } else {
            value += text[i];
        }
    }
    return std::nullopt;
}

// Takes `{name="value",...}`.
bool take_labels(std::string_view &text, MetricsLine &line) {
    text.remove_prefix(1);
    while (!text.starts_with('}')) {
        const std::size_t equals = text.find("=\"");
        if (equals == std::string_view::npos) {
            return false;
        }
        const std::string_view name = text.substr(0, equals);
        text.remove_prefix(equals + 2);
        auto value = take_value(text);
        if (!value) {
            return false;
        }
        line.labels.emplace(name, *std::move(value));
        if (text.starts_with(',')) {
            text.remove_prefix(1);
        }
    }
    text.remove_prefix(1);
    return true;
}

}  // namespace

std::optional<MetricsLine> parse_metrics_line(std::string_view line) {
    if (line.empty() || line.front() == '#') {
        return std::nullopt;
    }
    MetricsLine parsed;
    const std::size_t end = line.find_first_of("{ ");
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    parsed.name = line.substr(0, end);
    line.remove_prefix(end);
    if (line.front() == '{' && !take_labels(line, parsed)) {
        return std::nullopt;
    }
    while (line.starts_with(' ')) {
        line.remove_prefix(1);
    }
    const auto read = std::from_chars(line.data(), line.data() + line.size(), parsed.value);
    return read.ec == std::errc{} ? std::optional(std::move(parsed)) : std::nullopt;
}

}  // namespace gpusnoop::top
