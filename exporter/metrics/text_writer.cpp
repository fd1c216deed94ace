#include "exporter/metrics/text_writer.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace gpusnoop::metrics {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

Text::Type type_of(MetricType type) {
    switch (type) {
        case MetricType::Counter:
            return Text::Type::counter;
        case MetricType::Gauge:
            return Text::Type::gauge;
        case MetricType::Histogram:
            return Text::Type::histogram;
        case MetricType::Summary:
            return Text::Type::summary;
        case MetricType::Untyped:
            return Text::Type::unknown;
    }
    return Text::Type::unknown;
}

template <typename Number>
void end_sample(Text &text, const ClientMetric &metric, Number value) {
    text.number(value);
    text.timestamp(metric.timestamp_ms);
    text.end_line();
}

void sum_and_count(Text &text, const std::string &name, const ClientMetric &metric, double sum,
                   std::uint64_t count) {
    text.sample(name, "_sum");
    end_sample(text, metric, sum);
    text.sample(name, "_count");
    end_sample(text, metric, count);
}

void histogram(Text &text, const std::string &name, const ClientMetric &metric) {
    const auto &histogram = metric.histogram;
    const auto bucket = [&](double bound, std::uint64_t count) {
        text.sample(name, "_bucket", "le", text.bound_text(bound));
        end_sample(text, metric, count);
    };
    for (const ClientMetric::Bucket &one : histogram.bucket) {
        bucket(one.upper_bound, one.cumulative_count);
    }
    // Both formats need the +Inf bucket, and the model may lack it.
    if (histogram.bucket.empty() || !std::isinf(histogram.bucket.back().upper_bound)) {
        bucket(std::numeric_limits<double>::infinity(), histogram.sample_count);
    }
    sum_and_count(text, name, metric, histogram.sample_sum, histogram.sample_count);
}

void summary(Text &text, const std::string &name, const ClientMetric &metric) {
    for (const ClientMetric::Quantile &quantile : metric.summary.quantile) {
        text.sample(name, "", "quantile", text.bound_text(quantile.quantile));
        end_sample(text, metric, quantile.value);
    }
    sum_and_count(text, name, metric, metric.summary.sample_sum, metric.summary.sample_count);
}

double value_of(MetricType type, const ClientMetric &metric) {
    return type == MetricType::Counter ? metric.counter.value
           : type == MetricType::Gauge ? metric.gauge.value
                                       : metric.untyped.value;
}

}  // namespace

void write_family(Text &text, const MetricFamily &family) {
    if (family.metric.empty()) {
        return;
    }
    text.head(family.name, family.help, type_of(family.type));
    for (const ClientMetric &metric : family.metric) {
        text.clear_labels();
        for (const ClientMetric::Label &label : metric.label) {
            text.add_label(label.name, label.value);
        }
        if (family.type == MetricType::Histogram) {
            histogram(text, family.name, metric);
        } else if (family.type == MetricType::Summary) {
            summary(text, family.name, metric);
        } else {
            text.sample(family.name, "");
            end_sample(text, metric, value_of(family.type, metric));
        }
    }
}

std::string write_families(Format format, const std::vector<MetricFamily> &families) {
    Text text(format);
    for (const MetricFamily &family : families) {
        write_family(text, family);
    }
    return text.finish();
}

}  // namespace gpusnoop::metrics
