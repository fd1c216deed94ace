// Serves the same series with prometheus-cpp: its registry, with an object for each, and its
// Exposer.
#include <fmt/format.h>

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/scrape/allocations.h"
#include "bench/scrape/load.h"
#include "bench/scrape/serve.h"

using namespace gpusnoop;

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::map<std::string, std::string> labels_of(const ClientMetric &metric) {
    std::map<std::string, std::string> labels;
    for (const ClientMetric::Label &label : metric.label) {
        labels.emplace(label.name, label.value);
    }
    return labels;
}

void add_histogram(prometheus::Family<prometheus::Histogram> &family, const ClientMetric &metric) {
    std::vector<double> bounds;
    std::vector<double> counts;
    double before = 0;
    for (const ClientMetric::Bucket &bucket : metric.histogram.bucket) {
        if (std::isfinite(bucket.upper_bound)) {
            bounds.push_back(bucket.upper_bound);
        }
        const auto until = static_cast<double>(bucket.cumulative_count);
        counts.push_back(until - before);
        before = until;
    }
    family.Add(labels_of(metric), bounds).ObserveMultiple(counts, metric.histogram.sample_sum);
}

void add(prometheus::Registry &registry, const MetricFamily &family) {
    const auto described = [&](auto builder) -> auto & {
        return builder.Name(family.name).Help(family.help).Register(registry);
    };
    switch (family.type) {
        case MetricType::Counter: {
            auto &counters = described(prometheus::BuildCounter());
            for (const ClientMetric &metric : family.metric) {
                counters.Add(labels_of(metric)).Increment(metric.counter.value);
            }
            return;
        }
        case MetricType::Histogram: {
            auto &histograms = described(prometheus::BuildHistogram());
            for (const ClientMetric &metric : family.metric) {
                add_histogram(histograms, metric);
            }
            return;
        }
        default: {
            auto &gauges = described(prometheus::BuildGauge());
            for (const ClientMetric &metric : family.metric) {
                gauges.Add(labels_of(metric)).Set(metric.gauge.value);
            }
            return;
        }
    }
}

std::shared_ptr<prometheus::Registry> make_registry(std::size_t series) {
    auto registry = std::make_shared<prometheus::Registry>();
    const bench::Load load(series);
    probes::Snapshot snapshot;
    for (probes::Probe *probe : load.probes()) {
        for (auto &family : probe->report()) {
            snapshot.families.push_back(std::move(family));
        }
    }
    for (const MetricFamily &family : bench::families_of(snapshot, load.probes())) {
        add(*registry, family);
    }
    return registry;
}

}  // namespace

int main(int argc, char **argv) {
    const auto registry = make_registry(bench::series_of(argc, argv));
    prometheus::Exposer exposer("127.0.0.1:0");
    exposer.RegisterCollectable(registry);
    bench::Allocations last;
    bench::serve(
        static_cast<std::uint16_t>(exposer.GetListeningPorts().at(0)), [&](const std::string &) {
            const bench::Allocations now = bench::allocations();
            auto text = fmt::format("{} {} 0", now.count - last.count, now.bytes - last.bytes);
            last = bench::allocations();
            return text;
        });
    return 0;
}
