// The reference of all metrics, as a document: docs/metrics.md is made from it.
#pragma once

#include <string>

namespace gpusnoop::metrics {

// Markdown: every family that the page can show, with its type, labels and meaning.
std::string metrics_reference();

}  // namespace gpusnoop::metrics
