// Writes snapshots of families as a page.
//
// A worker of the server renders the snapshot of the pipeline thread in the format that the client
// prefers (text.h); scrapes that arrive meanwhile share the page.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

#include "exporter/metrics/text_writer.h"
#include "exporter/series/family.h"

namespace gpusnoop::metrics {

// The page with `snapshots`, in base units and with their exemplars, followed by `more`.
// Consecutive snapshots of one name become one family: a histogram whose label sets have different
// buckets is kept as several snapshots. Families without a label set are left out.
[[nodiscard]] std::string write_page(Format format,
                                     const std::vector<series::FamilySnapshot> &snapshots,
                                     const std::vector<prometheus::MetricFamily> &more);

}  // namespace gpusnoop::metrics
