// The lines of a page, in the formats that Prometheus reads: text 0.0.4 and OpenMetrics 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/series/family.h"

namespace gpusnoop::metrics {

enum class Format : std::uint8_t { text, openmetrics };

// The available format that a client's Accept header prefers; text 0.0.4 if it accepts neither.
[[nodiscard]] Format negotiate(std::string_view accept);

// The Content-Type of a format.
[[nodiscard]] const char *content_type(Format format);

// A family is its head() and then its samples: for each label set, labels, and for each of its
// samples, sample(), number() and end_line(). In OpenMetrics, a counter's family is named without
// "_total"; a counter whose name does not end so has the type unknown.
class Text {
public:
    enum class Type : std::uint8_t { counter, gauge, histogram, summary, unknown };

    // `expected` bytes of text are reserved: up to there, growing copies nothing.
    explicit Text(Format format, std::size_t expected = 0);

    void head(std::string_view name, std::string_view help, Type type);

    // For the samples that follow: a label set may have many samples, as a histogram has.
    void clear_labels() { labels_.clear(); }
    // An empty label is not written: to Prometheus it is the same as no label.
    void add_label(std::string_view name, std::string_view value);

    // A bound or a quantile as a label's value: in OpenMetrics always with a point.
    [[nodiscard]] std::string bound_text(double bound) const;
    // Name and labels, and one more label.
    void sample(std::string_view name, std::string_view suffix, std::string_view label = {},
                std::string_view value = {});
    void number(double value) { append(text_, value); }
    void number(std::uint64_t value) { append(text_, value); }
    // In milliseconds since 1970; 0: none.
    void timestamp(std::int64_t at);
    // For a sample of a counter or of a histogram's bucket. Left out in text 0.0.4, which has no
    // exemplars, for a counter that OpenMetrics calls unknown, and if it has more than 128
    // characters.
    void exemplar(std::string_view sample, const series::Exemplar &exemplar);
    void end_line() { text_ += '\n'; }

    // Returns the whole text. Call it once.
    [[nodiscard]] std::string finish();

private:
    [[nodiscard]] std::string_view type_name(std::string_view name, Type type) const;
    static void append(std::string &text, double value);
    static void append(std::string &text, std::uint64_t value);

    const bool is_openmetrics_;
    std::string text_;
    std::string labels_;
};

}  // namespace gpusnoop::metrics
