// Lines of the text format of Prometheus, as an exporter writes them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop::top {

struct MetricsLine {
    std::string_view name;
    std::map<std::string_view, std::string> labels;
    double value = 0;

    [[nodiscard]] std::string label(std::string_view label_name) const {
        const auto found = labels.find(label_name);
        return found == labels.end() ? std::string() : found->second;
    }
};

// Empty: it is a comment, or no such line. Views are into the line.
[[nodiscard]] std::optional<MetricsLine> parse_metrics_line(std::string_view line);

}  // namespace gpusnoop::top
