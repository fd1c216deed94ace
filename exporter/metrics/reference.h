// The reference of all metrics, as a document: docs/metrics.md is made from it.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "exporter/series/family.h"

namespace gpusnoop::metrics {

// Every family that the page can show, with one label set where it has labels.
struct EveryFamily {
    // By the titles of the probes.
    std::vector<std::pair<std::string, std::vector<series::FamilySnapshot>>> of_probes;
    std::vector<prometheus::MetricFamily> own;  // of the exporter itself

    // Those of all probes.
    [[nodiscard]] std::vector<series::FamilySnapshot> snapshots() const;
};
[[nodiscard]] EveryFamily every_family();

// Markdown: every family, with its type, labels and meaning.
std::string metrics_reference();

}  // namespace gpusnoop::metrics
