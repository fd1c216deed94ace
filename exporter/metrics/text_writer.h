// Families -> the formats that Prometheus reads: text 0.0.4 and OpenMetrics 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

#include "exporter/series/family.h"

namespace gpusnoop::metrics {

enum class Format : std::uint8_t { text, openmetrics };

// What a client's Accept header likes best of what there is: text 0.0.4 where it likes none.
[[nodiscard]] Format negotiate(std::string_view accept);

// The Content-Type of a format.
[[nodiscard]] const char *content_type(Format format);

// By family and label set. Text 0.0.4 has none.
using Labels = std::vector<prometheus::ClientMetric::Label>;
using Exemplars = std::map<std::string, std::map<Labels, std::shared_ptr<const series::Exemplar>>>;

// Writes families one by one, so that no more than one of them needs to be in prometheus-cpp's data
// model. `exemplars` must outlive it. Families without a label set are left out: a HELP line alone
// says nothing. In OpenMetrics, a counter's family is named without "_total", one whose name does
// not end so is of type unknown, and exemplars of more than 128 characters are left out.
class FamilyWriter {
public:
    // `expected` bytes of text: it is not copied while it grows up to them.
    FamilyWriter(Format format, const Exemplars &exemplars, std::size_t expected = 0);
    ~FamilyWriter();
    FamilyWriter(const FamilyWriter &) = delete;
    FamilyWriter &operator=(const FamilyWriter &) = delete;

    void add(const prometheus::MetricFamily &family);
    // The text of all, once.
    [[nodiscard]] std::string finish();

private:
    class Text;
    std::unique_ptr<Text> text_;
};

// The same, of all at once.
[[nodiscard]] std::string write_families(Format format,
                                         const std::vector<prometheus::MetricFamily> &families,
                                         const Exemplars &exemplars = {});

}  // namespace gpusnoop::metrics
