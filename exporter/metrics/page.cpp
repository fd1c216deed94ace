#include "exporter/metrics/page.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace gpusnoop::metrics {

namespace {

prometheus::MetricType to_metric_type(series::Type type) {
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

prometheus::ClientMetric::Histogram to_histogram(const series::Description &description,
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

Labels to_labels(const series::Description &description, const series::LabelValues &values) {
    Labels labels;
    for (std::size_t i = 0; i < values.size(); i++) {
        labels.push_back({description.labels[i].name, values[i]});
    }
    return labels;
}

}  // namespace

prometheus::MetricFamily to_metric_family(const series::FamilySnapshot &snapshot) {
    const series::Description &description = *snapshot.description;
    prometheus::MetricFamily family;
    family.name = description.name;
    family.help = description.help;
    family.type = to_metric_type(description.type);
    family.metric.reserve(snapshot.labels.size());
    for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
        prometheus::ClientMetric metric;
        metric.label = to_labels(description, *snapshot.labels[i]);
        const std::uint64_t *raw = &snapshot.values[i * snapshot.stride];
        const double value = static_cast<double>(*raw) / description.divisor;
        switch (description.type) {
            case series::Type::counter:
                metric.counter.value = value;
                break;
            case series::Type::gauge:
                metric.gauge.value = value;
                break;
            case series::Type::histogram:
                metric.histogram = to_histogram(description, raw);
                break;
        }
        family.metric.push_back(std::move(metric));
    }
    return family;
}

namespace {

// Two histograms of one label set, as what is folded has: they are one, with the bounds that both
// have, where the counts of both are known.
void add_to(prometheus::ClientMetric::Histogram &sum,
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

void move_to(prometheus::MetricFamily &all, prometheus::MetricFamily more) {
    std::map<Labels, std::size_t> places;
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

// `use` gets each family, of all its snapshots.
template <typename Use>
void for_each_family(const std::vector<series::FamilySnapshot> &snapshots, Use use) {
    for (std::size_t i = 0; i < snapshots.size();) {
        auto family = to_metric_family(snapshots[i++]);
        while (i < snapshots.size() && snapshots[i].description->name == family.name) {
            move_to(family, to_metric_family(snapshots[i++]));
        }
        use(std::move(family));
    }
}

// More than the text of most pages. What of it is not needed is address space only.
std::size_t most_bytes(const std::vector<series::FamilySnapshot> &snapshots) {
    constexpr std::size_t of_sample = 256;
    std::size_t samples = 0;
    for (const series::FamilySnapshot &snapshot : snapshots) {
        samples += snapshot.values.size() + snapshot.labels.size();  // the count of a histogram
    }
    return samples * of_sample;
}

}  // namespace

std::vector<prometheus::MetricFamily> to_metric_families(
    const std::vector<series::FamilySnapshot> &snapshots) {
    std::vector<prometheus::MetricFamily> families;
    for_each_family(
        snapshots, [&](prometheus::MetricFamily family) { families.push_back(std::move(family)); });
    return families;
}

std::string write_page(Format format, const std::vector<series::FamilySnapshot> &snapshots,
                       const std::vector<prometheus::MetricFamily> &more) {
    const Exemplars exemplars = to_exemplars(snapshots);
    FamilyWriter writer(format, exemplars, most_bytes(snapshots));
    for_each_family(snapshots, [&](const prometheus::MetricFamily &family) { writer.add(family); });
    for (const prometheus::MetricFamily &family : more) {
        writer.add(family);
    }
    return writer.finish();
}

Exemplars to_exemplars(const std::vector<series::FamilySnapshot> &snapshots) {
    Exemplars all;
    for (const series::FamilySnapshot &snapshot : snapshots) {
        for (std::size_t i = 0; i < snapshot.exemplars.size(); i++) {
            if (snapshot.exemplars[i] != nullptr) {
                all[snapshot.description->name].emplace(
                    to_labels(*snapshot.description, *snapshot.labels[i]), snapshot.exemplars[i]);
            }
        }
    }
    return all;
}

}  // namespace gpusnoop::metrics
