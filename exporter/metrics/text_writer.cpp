#include "exporter/metrics/text_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

namespace gpusnoop::metrics {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::string_view kTotal = "_total";
constexpr std::size_t kMaxExemplar = 128;  // characters of names and values, as the format has it

// Characters of valid UTF-8.
std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

// What a name says its values are in: the words behind the last one that says what is measured.
std::string_view unit_of(std::string_view name) {
    for (const std::string_view unit : {"bytes_per_second", "seconds", "bytes", "ratio"}) {
        if (name.size() > unit.size() && name.ends_with(unit) &&
            name[name.size() - unit.size() - 1] == '_') {
            return unit;
        }
    }
    return "";
}

class Writer {
public:
    Writer(Format format, const Exemplars &exemplars)
        : is_openmetrics_(format == Format::openmetrics), exemplars_(exemplars) {}

    void family(const MetricFamily &family);
    [[nodiscard]] std::string finish() {
        out_ += is_openmetrics_ ? "# EOF\n" : "";
        return std::move(out_);
    }

private:
    void head(const MetricFamily &family);
    [[nodiscard]] std::string_view family_name(const MetricFamily &family) const;
    [[nodiscard]] std::string_view type_name(const MetricFamily &family) const;
    void metric(const MetricFamily &family, const ClientMetric &metric);
    void histogram(const std::string &name, const ClientMetric &metric);
    void summary(const std::string &name, const ClientMetric &metric);
    // Name and labels, and one label more.
    void sample(std::string_view name, std::string_view suffix, const ClientMetric &metric,
                std::string_view label = {}, double bound = 0);
    void timestamp(const ClientMetric &metric);
    void end_line(const ClientMetric &metric);
    void exemplar(const MetricFamily &family, const ClientMetric &metric);
    // As a label's value has it: in OpenMetrics always with a point.
    void bound(double value);
    void number(double value);
    void number(std::uint64_t value);
    void escaped(std::string_view text, bool quotes);

    const bool is_openmetrics_;
    const Exemplars &exemplars_;
    std::string out_;
};

void Writer::number(std::uint64_t value) {
    std::array<char, 24> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    out_.append(text.data(), end);
}

void Writer::number(double value) {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (std::isnan(value)) {
        out_ += "NaN";
    } else if (std::isinf(value)) {
        out_ += value > 0 ? "+Inf" : "-Inf";
    } else if (std::trunc(value) == value && std::abs(value) <= kExact && !std::signbit(value)) {
        number(static_cast<std::uint64_t>(value));  // without an exponent, which is hard to read
    } else {
        std::array<char, 32> text{};
        const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
        out_.append(text.data(), end);
    }
}

void Writer::bound(double value) {
    const std::size_t start = out_.size();
    number(value);
    if (is_openmetrics_ && std::isfinite(value) &&
        out_.find_first_of(".e", start) == std::string::npos) {
        out_ += ".0";
    }
}

void Writer::escaped(std::string_view text, bool quotes) {
    for (;;) {
        const std::size_t next = text.find_first_of(quotes ? "\\\n\"" : "\\\n");
        out_ += text.substr(0, next);
        if (next == std::string_view::npos) {
            return;
        }
        out_ += '\\';
        out_ += text[next] == '\n' ? 'n' : text[next];
        text.remove_prefix(next + 1);
    }
}

std::string_view Writer::family_name(const MetricFamily &family) const {
    std::string_view name = family.name;
    if (is_openmetrics_ && family.type == MetricType::Counter && name.ends_with(kTotal)) {
        name.remove_suffix(kTotal.size());
    }
    return name;
}

std::string_view Writer::type_name(const MetricFamily &family) const {
    const std::string_view unknown = is_openmetrics_ ? "unknown" : "untyped";
    switch (family.type) {
        case MetricType::Counter:
            return is_openmetrics_ && !family.name.ends_with(kTotal) ? unknown : "counter";
        case MetricType::Gauge:
            return "gauge";
        case MetricType::Histogram:
            return "histogram";
        case MetricType::Summary:
            return "summary";
        case MetricType::Untyped:
            return unknown;
    }
    return unknown;
}

void Writer::head(const MetricFamily &family) {
    const std::string_view name = family_name(family);
    const auto line = [&](std::string_view what) {
        out_ += "# ";
        out_ += what;
        out_ += ' ';
        out_ += name;
        out_ += ' ';
    };
    if (!family.help.empty()) {
        line("HELP");
        // Quotes too, in OpenMetrics.
        escaped(family.help, is_openmetrics_);
        out_ += '\n';
    }
    line("TYPE");
    out_ += type_name(family);
    out_ += '\n';
    if (const std::string_view unit = unit_of(name); is_openmetrics_ && !unit.empty()) {
        line("UNIT");
        out_ += unit;
        out_ += '\n';
    }
}

void Writer::sample(std::string_view name, std::string_view suffix, const ClientMetric &metric,
                    std::string_view label, double value) {
    out_ += name;
    out_ += suffix;
    char before = '{';
    const auto begin = [&](std::string_view key) {
        out_ += before;
        before = ',';
        out_ += key;
        out_ += "=\"";
    };
    for (const ClientMetric::Label &one : metric.label) {
        begin(one.name);
        escaped(one.value, true);
        out_ += '"';
    }
    if (!label.empty()) {
        begin(label);
        bound(value);
        out_ += '"';
    }
    out_ += before == ',' ? "} " : " ";
}

// OpenMetrics has them in seconds.
void Writer::timestamp(const ClientMetric &metric) {
    if (metric.timestamp_ms == 0) {
        return;
    }
    out_ += ' ';
    if (is_openmetrics_) {
        number(static_cast<double>(metric.timestamp_ms) / 1e3);
    } else {
        out_ += std::to_string(metric.timestamp_ms);
    }
}

void Writer::end_line(const ClientMetric &metric) {
    timestamp(metric);
    out_ += '\n';
}

void Writer::exemplar(const MetricFamily &family, const ClientMetric &metric) {
    const auto of_family = exemplars_.find(family.name);
    if (!is_openmetrics_ || of_family == exemplars_.end()) {
        return;
    }
    const auto found = of_family->second.find(metric.label);
    if (found == of_family->second.end() || found->second == nullptr) {
        return;
    }
    std::size_t size = 0;
    for (const auto &[name, value] : found->second->labels) {
        size += characters(name) + characters(value);
    }
    if (size > kMaxExemplar) {
        return;
    }
    out_ += " # {";
    for (const auto &[name, value] : found->second->labels) {
        out_ += out_.back() == '{' ? "" : ",";
        out_ += name;
        out_ += "=\"";
        escaped(value, true);
        out_ += '"';
    }
    out_ += "} ";
    number(found->second->value);
    out_ += ' ';
    // To the millisecond, which is what Prometheus keeps.
    const auto at = std::chrono::floor<std::chrono::milliseconds>(found->second->at);
    number(static_cast<double>(at.count()) / 1e3);
}

void Writer::histogram(const std::string &name, const ClientMetric &metric) {
    for (const ClientMetric::Bucket &bucket : metric.histogram.bucket) {
        sample(name, "_bucket", metric, "le", bucket.upper_bound);
        number(bucket.cumulative_count);
        end_line(metric);
    }
    // Both formats need it, and prometheus-cpp's model may be without.
    const bool has_infinite =
        !metric.histogram.bucket.empty() && std::isinf(metric.histogram.bucket.back().upper_bound);
    if (!has_infinite) {
        sample(name, "_bucket", metric, "le", std::numeric_limits<double>::infinity());
        number(metric.histogram.sample_count);
        end_line(metric);
    }
    sample(name, "_sum", metric);
    number(metric.histogram.sample_sum);
    end_line(metric);
    sample(name, "_count", metric);
    number(metric.histogram.sample_count);
    end_line(metric);
}

void Writer::summary(const std::string &name, const ClientMetric &metric) {
    for (const ClientMetric::Quantile &quantile : metric.summary.quantile) {
        sample(name, "", metric, "quantile", quantile.quantile);
        number(quantile.value);
        end_line(metric);
    }
    sample(name, "_sum", metric);
    number(metric.summary.sample_sum);
    end_line(metric);
    sample(name, "_count", metric);
    number(metric.summary.sample_count);
    end_line(metric);
}

void Writer::metric(const MetricFamily &family, const ClientMetric &metric) {
    switch (family.type) {
        case MetricType::Histogram:
            return histogram(family.name, metric);
        case MetricType::Summary:
            return summary(family.name, metric);
        case MetricType::Counter:
            sample(family.name, "", metric);
            number(metric.counter.value);
            timestamp(metric);
            // Only counters have them here, and those of type unknown must not.
            if (family.name.ends_with(kTotal)) {
                exemplar(family, metric);
            }
            out_ += '\n';
            return;
        case MetricType::Gauge:
            sample(family.name, "", metric);
            number(metric.gauge.value);
            return end_line(metric);
        case MetricType::Untyped:
            sample(family.name, "", metric);
            number(metric.untyped.value);
            return end_line(metric);
    }
}

void Writer::family(const MetricFamily &family) {
    if (family.metric.empty()) {
        return;
    }
    head(family);
    for (const ClientMetric &one : family.metric) {
        metric(family, one);
    }
}

}  // namespace

const char *content_type(Format format) {
    return format == Format::openmetrics
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

std::string write_families(Format format, const std::vector<MetricFamily> &families,
                           const Exemplars &exemplars) {
    Writer writer(format, exemplars);
    for (const MetricFamily &family : families) {
        writer.family(family);
    }
    return writer.finish();
}

}  // namespace gpusnoop::metrics
