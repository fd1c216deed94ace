// Snapshots of families in prometheus-cpp's data model: what the page must be the text of, made
// another way, and what prometheus-cpp is measured with.
#pragma once

#include <prometheus/metric_family.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "exporter/metrics/text_writer.h"
#include "exporter/series/family.h"

namespace gpusnoop::metrics {

inline prometheus::MetricType to_metric_type(series::Type type) {
    switch (type) {
        case series::Type::counter:
            return prometheus::MetricType::Counter;
        case series::Type::gauge:
            return prometheus::MetricType::Gauge;
        case series::Type::histogram:
            return prometheus::MetricType::Histogram;
    }
    return prometheus::MetricType::Untyped;
}

inline prometheus::ClientMetric::Histogram to_histogram(const series::Description &description,
                                                        const std::uint64_t *values) {
    prometheus::ClientMetric::Histogram histogram;
    const std::size_t bounds = description.bounds.size();
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i <= bounds; i++) {
        cumulative += values[i];
        const double bound = i < bounds
                                 ? static_cast<double>(description.bounds[i]) / description.divisor
                                 : std::numeric_limits<double>::infinity();
        histogram.bucket.push_back({cumulative, bound});
    }
    histogram.sample_count = cumulative;
    histogram.sample_sum = static_cast<double>(values[bounds + 1]) / description.divisor;
    return histogram;
}

inline prometheus::MetricFamily to_metric_family(const series::FamilySnapshot &snapshot) {
    const series::Description &description = *snapshot.description;
    prometheus::MetricFamily family;
    family.name = description.name;
    family.help = description.help;
    family.type = to_metric_type(description.type);
    for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
        prometheus::ClientMetric metric;
        for (std::size_t label = 0; label < snapshot.labels[i]->size(); label++) {
            metric.label.push_back({description.labels[label].name, (*snapshot.labels[i])[label]});
        }
        const std::uint64_t *raw = &snapshot.values[i * snapshot.stride];
        metric.counter.value = metric.gauge.value = static_cast<double>(*raw) / description.divisor;
        if (description.type == series::Type::histogram) {
            metric.histogram = to_histogram(description, raw);
        }
        family.metric.push_back(std::move(metric));
    }
    return family;
}

// Two histograms of one label set: one, with the bounds that both have.
inline void add_to(prometheus::ClientMetric::Histogram &sum,
                   const prometheus::ClientMetric::Histogram &other) {
    std::vector<prometheus::ClientMetric::Bucket> common;
    for (const auto &bucket : sum.bucket) {
        const auto same = std::ranges::find(other.bucket, bucket.upper_bound,
                                            &prometheus::ClientMetric::Bucket::upper_bound);
        if (same != other.bucket.end()) {
            common.push_back(
                {bucket.cumulative_count + same->cumulative_count, bucket.upper_bound});
        }
    }
    sum.bucket = std::move(common);
    sum.sample_count += other.sample_count;
    sum.sample_sum += other.sample_sum;
}

inline void move_to(prometheus::MetricFamily &all, prometheus::MetricFamily more) {
    std::map<std::vector<prometheus::ClientMetric::Label>, std::size_t> places;
    for (std::size_t i = 0; i < all.metric.size(); i++) {
        places.emplace(all.metric[i].label, i);
    }
    for (prometheus::ClientMetric &metric : more.metric) {
        const auto place = places.find(metric.label);
        if (place == places.end()) {
            all.metric.push_back(std::move(metric));
        } else {
            add_to(all.metric[place->second].histogram, metric.histogram);
        }
    }
}

// Snapshots of one name, one behind the other, become one family.
inline std::vector<prometheus::MetricFamily> to_metric_families(
    const std::vector<series::FamilySnapshot> &snapshots) {
    std::vector<prometheus::MetricFamily> families;
    for (const series::FamilySnapshot &snapshot : snapshots) {
        auto family = to_metric_family(snapshot);
        if (!families.empty() && families.back().name == family.name) {
            move_to(families.back(), std::move(family));
        } else {
            families.push_back(std::move(family));
        }
    }
    return families;
}

}  // namespace gpusnoop::metrics
