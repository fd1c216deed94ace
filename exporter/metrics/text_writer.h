// Writes families of prometheus-cpp's data model as text. Only the exporter's own metrics use that
// model; probes' metrics do not (page.h).
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

#include "exporter/metrics/text.h"

namespace gpusnoop::metrics {

// A family without a label set is left out: a HELP line alone is useless.
void write_family(Text &text, const prometheus::MetricFamily &family);

[[nodiscard]] std::string write_families(Format format,
                                         const std::vector<prometheus::MetricFamily> &families);

// In text 0.0.4.
[[nodiscard]] inline std::string to_text(const std::vector<prometheus::MetricFamily> &families) {
    return write_families(Format::text, families);
}

}  // namespace gpusnoop::metrics
