#include "exporter/metrics/text_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

}  // namespace

class FamilyWriter::Text {
public:
    Text(Format format, const Exemplars &exemplars, std::size_t expected)
        : is_openmetrics_(format == Format::openmetrics), exemplars_(exemplars) {
        out_.reserve(expected);
    }

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
    void sum_and_count(const std::string &name, const ClientMetric &metric, double sum,
                       std::uint64_t count);
    void histogram(const std::string &name, const ClientMetric &metric);
    void summary(const std::string &name, const ClientMetric &metric);
    // Name, and the labels that labels() was given last, and one label more.
    void sample(std::string_view name, std::string_view suffix, std::string_view label = {},
                double bound = 0);
    void timestamp(const ClientMetric &metric);
    void end_line(const ClientMetric &metric);
    void exemplar(const MetricFamily &family, const ClientMetric &metric);
    // As a label's value has it: in OpenMetrics always with a point.
    void bound(double value);
    void number(double value);
    void number(std::uint64_t value);
    void labels(const ClientMetric &metric);
    static void escaped(std::string &out, std::string_view text, bool quotes);

    const bool is_openmetrics_;
    const Exemplars &exemplars_;
    std::string out_;
    std::string labels_;  // of the metric that is being written
};

void FamilyWriter::Text::number(std::uint64_t value) {
    std::array<char, 24> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    out_.append(text.data(), end);
}

void FamilyWriter::Text::number(double value) {
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

void FamilyWriter::Text::bound(double value) {
    const std::size_t start = out_.size();
    number(value);
    if (is_openmetrics_ && std::isfinite(value) &&
        out_.find_first_of(".e", start) == std::string::npos) {
        out_ += ".0";
    }
}

// Most texts have nothing to escape, and find_first_of() looks up every character in the list.
void FamilyWriter::Text::escaped(std::string &out, std::string_view text, bool quotes) {
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

std::string_view FamilyWriter::Text::family_name(const MetricFamily &family) const {
    std::string_view name = family.name;
    if (is_openmetrics_ && family.type == MetricType::Counter && name.ends_with(kTotal)) {
        name.remove_suffix(kTotal.size());
    }
    return name;
}

std::string_view FamilyWriter::Text::type_name(const MetricFamily &family) const {
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

void FamilyWriter::Text::head(const MetricFamily &family) {
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
        escaped(out_, family.help, is_openmetrics_);
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

// All samples of a metric have them, and a histogram has many.
void FamilyWriter::Text::labels(const ClientMetric &metric) {
    labels_.clear();
    for (const ClientMetric::Label &one : metric.label) {
        labels_ += labels_.empty() ? "" : ",";
        labels_ += one.name;
        labels_ += "=\"";
        escaped(labels_, one.value, true);
        labels_ += '"';
    }
}

void FamilyWriter::Text::sample(std::string_view name, std::string_view suffix,
                                std::string_view label, double value) {
    out_ += name;
    out_ += suffix;
    if (!labels_.empty() || !label.empty()) {
        out_ += '{';
        out_ += labels_;
        if (!label.empty()) {
            out_ += labels_.empty() ? "" : ",";
            out_ += label;
            out_ += "=\"";
            bound(value);
            out_ += '"';
        }
        out_ += '}';
    }
    out_ += ' ';
}

// OpenMetrics has them in seconds.
void FamilyWriter::Text::timestamp(const ClientMetric &metric) {
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

void FamilyWriter::Text::end_line(const ClientMetric &metric) {
    timestamp(metric);
    out_ += '\n';
}

void FamilyWriter::Text::exemplar(const MetricFamily &family, const ClientMetric &metric) {
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
        escaped(out_, value, true);
        out_ += '"';
    }
    out_ += "} ";
    number(found->second->value);
    out_ += ' ';
    // To the millisecond, which is what Prometheus keeps.
    const auto at = std::chrono::floor<std::chrono::milliseconds>(found->second->at);
    number(static_cast<double>(at.count()) / 1e3);
}

void FamilyWriter::Text::sum_and_count(const std::string &name, const ClientMetric &metric,
                                       double sum, std::uint64_t count) {
    sample(name, "_sum");
    number(sum);
    end_line(metric);
    sample(name, "_count");
    number(count);
    end_line(metric);
}

void FamilyWriter::Text::histogram(const std::string &name, const ClientMetric &metric) {
    for (const ClientMetric::Bucket &bucket : metric.histogram.bucket) {
        sample(name, "_bucket", "le", bucket.upper_bound);
        number(bucket.cumulative_count);
        end_line(metric);
    }
    // Both formats need it, and prometheus-cpp's model may be without.
    const bool has_infinite =
        !metric.histogram.bucket.empty() && std::isinf(metric.histogram.bucket.back().upper_bound);
    if (!has_infinite) {
        sample(name, "_bucket", "le", std::numeric_limits<double>::infinity());
        number(metric.histogram.sample_count);
        end_line(metric);
    }
    sum_and_count(name, metric, metric.histogram.sample_sum, metric.histogram.sample_count);
}

void FamilyWriter::Text::summary(const std::string &name, const ClientMetric &metric) {
    for (const ClientMetric::Quantile &quantile : metric.summary.quantile) {
        sample(name, "", "quantile", quantile.quantile);
        number(quantile.value);
        end_line(metric);
    }
    sum_and_count(name, metric, metric.summary.sample_sum, metric.summary.sample_count);
}

void FamilyWriter::Text::metric(const MetricFamily &family, const ClientMetric &metric) {
    switch (family.type) {
        case MetricType::Histogram:
            return histogram(family.name, metric);
        case MetricType::Summary:
            return summary(family.name, metric);
        case MetricType::Counter:
            sample(family.name, "");
            number(metric.counter.value);
            timestamp(metric);
            // Only counters have them here, and those of type unknown must not.
            if (family.name.ends_with(kTotal)) {
                exemplar(family, metric);
            }
            out_ += '\n';
            return;
        case MetricType::Gauge:
            sample(family.name, "");
            number(metric.gauge.value);
            return end_line(metric);
        case MetricType::Untyped:
            sample(family.name, "");
            number(metric.untyped.value);
            return end_line(metric);
    }
}

void FamilyWriter::Text::family(const MetricFamily &family) {
    if (family.metric.empty()) {
        return;
    }
    head(family);
    for (const ClientMetric &one : family.metric) {
        labels(one);
        metric(family, one);
    }
}

FamilyWriter::FamilyWriter(Format format, const Exemplars &exemplars, std::size_t expected)
    : text_(std::make_unique<Text>(format, exemplars, expected)) {}

FamilyWriter::~FamilyWriter() = default;

void FamilyWriter::add(const MetricFamily &family) {
    text_->family(family);
}

std::string FamilyWriter::finish() {
    return text_->finish();
}

const char *content_type(Format format) {
    return format == Format::openmetrics
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

std::string write_families(Format format, const std::vector<MetricFamily> &families,
                           const Exemplars &exemplars) {
    FamilyWriter writer(format, exemplars);
    for (const MetricFamily &family : families) {
        writer.add(family);
    }
    return writer.finish();
}

}  // namespace gpusnoop::metrics
