#include "exporter/metrics/page.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>

namespace gpusnoop::metrics {

namespace {

using series::FamilySnapshot;

Text::Type type_of(series::Type type) {
    switch (type) {
        case series::Type::counter:
            return Text::Type::counter;
        case series::Type::gauge:
            return Text::Type::gauge;
        case series::Type::histogram:
            return Text::Type::histogram;
    }
    return Text::Type::unknown;
}

// One label set of a snapshot.
struct Source {
    const FamilySnapshot *snapshot;
    std::size_t at;

    [[nodiscard]] const series::Description &description() const { return *snapshot->description; }
    [[nodiscard]] const series::LabelValues &labels() const { return *snapshot->labels[at]; }
    [[nodiscard]] const std::uint64_t *values() const {
        return &snapshot->values[at * snapshot->stride];
    }
    [[nodiscard]] const series::Exemplar *exemplar() const {
        return snapshot->exemplars.empty() ? nullptr : snapshot->exemplars[at].get();
    }
};
// The sources of one label set.
using Sources = std::span<const Source>;

// Upper bounds in base units; the last is infinity.
std::vector<double> bounds_of(const series::Description &description) {
    std::vector<double> bounds;
    for (const std::uint64_t bound : description.bounds) {
        bounds.push_back(static_cast<double>(bound) / description.divisor);
    }
    bounds.push_back(std::numeric_limits<double>::infinity());
    return bounds;
}

// The place of the bucket that a value in base units is counted in.
std::size_t bucket_of(const series::Description &description, double value) {
    const auto bound = std::ranges::lower_bound(
        description.bounds, value, {},
        [&](std::uint64_t raw) { return static_cast<double>(raw) / description.divisor; });
    return static_cast<std::size_t>(bound - description.bounds.begin());
}

struct Histogram {
    std::map<double, std::uint64_t> cumulative;  // by upper bound
    double sum = 0;
};

Histogram histogram_of(const Source &source) {
    Histogram histogram;
    const std::uint64_t *values = source.values();
    std::uint64_t count = 0;
    for (const double bound : bounds_of(source.description())) {
        histogram.cumulative[bound] = count += *values++;
    }
    histogram.sum = static_cast<double>(*values) / source.description().divisor;
    return histogram;
}

// Adds the histograms of one label set, as folded sets have several: the sum has the bounds that
// all have, because only there all counts are known.
Histogram sum_of(Sources sources) {
    Histogram sum = histogram_of(sources.front());
    for (const Source &source : sources.subspan(1)) {
        const Histogram other = histogram_of(source);
        std::erase_if(sum.cumulative,
                      [&](const auto &bucket) { return !other.cumulative.contains(bucket.first); });
        for (auto &[bound, count] : sum.cumulative) {
            count += other.cumulative.at(bound);
        }
        sum.sum += other.sum;
    }
    return sum;
}

class PageWriter {
public:
    PageWriter(Format format, std::size_t expected) : text_(format, expected) {}

    // Adds snapshots of one name.
    void add(std::span<const FamilySnapshot> snapshots) {
        const auto is_empty = [](const FamilySnapshot &one) { return one.labels.empty(); };
        if (std::ranges::all_of(snapshots, is_empty)) {
            return;
        }
        const series::Description &description = *snapshots.front().description;
        text_.head(description.name, description.help, type_of(description.type));
        if (snapshots.size() == 1) {
            note_bounds(description);
            for (std::size_t i = 0; i < snapshots.front().labels.size(); i++) {
                const Source source{&snapshots.front(), i};
                write({&source, 1});
            }
            return;
        }
        for (const std::vector<Source> &sources : joined(snapshots)) {
            note_bounds(sources.front().description());
            write(sources);
        }
    }
    void add(const prometheus::MetricFamily &family) { write_family(text_, family); }

    [[nodiscard]] std::string finish() { return text_.finish(); }

private:
    // The sources of each label set, in the order of their first sources.
    static std::vector<std::vector<Source>> joined(std::span<const FamilySnapshot> snapshots) {
        std::vector<std::vector<Source>> all;
        std::map<series::LabelValues, std::size_t> places;
        for (const FamilySnapshot &snapshot : snapshots) {
            for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
                const auto [place, is_new] = places.emplace(*snapshot.labels[i], all.size());
                if (is_new) {
                    all.emplace_back();
                }
                all[place->second].push_back({&snapshot, i});
            }
        }
        return all;
    }

    // Formats the bounds once for all label sets of a snapshot.
    void note_bounds(const series::Description &description) {
        bounds_.clear();
        if (description.type == series::Type::histogram) {
            for (const double bound : bounds_of(description)) {
                bounds_.push_back(text_.bound_text(bound));
            }
        }
    }

    void write(Sources sources) {
        const Source &first = sources.front();
        const series::Description &description = first.description();
        text_.clear_labels();
        for (std::size_t i = 0; i < first.labels().size(); i++) {
            text_.add_label(description.labels[i].name, first.labels()[i]);
        }
        if (description.type != series::Type::histogram) {
            text_.sample(description.name, "");
            text_.number(static_cast<double>(*first.values()) / description.divisor);
            if (description.type == series::Type::counter) {
                write_exemplar(sources);
            }
            text_.end_line();
        } else if (sources.size() == 1) {
            write_histogram(first);
        } else {
            write_histogram(description.name, sum_of(sources));
        }
    }

    void write_exemplar(Sources sources) {
        const auto found = std::ranges::find_if(
            sources, [](const Source &source) { return source.exemplar() != nullptr; });
        if (found != sources.end()) {
            text_.exemplar(found->description().name, *found->exemplar());
        }
    }

    void write_bucket(const std::string &name, std::string_view bound, std::uint64_t count,
                      const series::Exemplar *exemplar = nullptr) {
        text_.sample(name, "_bucket", "le", bound);
        text_.number(count);
        if (exemplar != nullptr) {
            text_.exemplar(name + "_bucket", *exemplar);
        }
        text_.end_line();
    }

    void write_sum(const std::string &name, double sum, std::uint64_t count) {
        text_.sample(name, "_sum");
        text_.number(sum);
        text_.end_line();
        text_.sample(name, "_count");
        text_.number(count);
        text_.end_line();
    }

    void write_histogram(const Source &source) {
        const series::Description &description = source.description();
        const std::uint64_t *values = source.values();
        const series::Exemplar *const exemplar = source.exemplar();
        const std::size_t at = exemplar == nullptr ? 0 : bucket_of(description, exemplar->value);
        std::uint64_t count = 0;
        for (std::size_t i = 0; i < bounds_.size(); i++) {
            write_bucket(description.name, bounds_[i], count += *values++,
                         exemplar != nullptr && i == at ? exemplar : nullptr);
        }
        write_sum(description.name, static_cast<double>(*values) / description.divisor, count);
    }

    void write_histogram(const std::string &name, const Histogram &histogram) {
        for (const auto &[bound, count] : histogram.cumulative) {
            write_bucket(name, text_.bound_text(bound), count);
        }
        write_sum(name, histogram.sum, histogram.cumulative.rbegin()->second);
    }

    Text text_;
    std::vector<std::string> bounds_;
};

// More than the text of most pages. Unused bytes only reserve address space.
std::size_t most_bytes(const std::vector<FamilySnapshot> &snapshots) {
    constexpr std::size_t of_sample = 256;
    std::size_t samples = 0;
    for (const FamilySnapshot &snapshot : snapshots) {
        samples += snapshot.values.size() + snapshot.labels.size();  // the count of a histogram
    }
    return samples * of_sample;
}

}  // namespace

std::string write_page(Format format, const std::vector<FamilySnapshot> &snapshots,
                       const std::vector<prometheus::MetricFamily> &more) {
    PageWriter writer(format, most_bytes(snapshots));
    for (auto rest = std::span(snapshots); !rest.empty();) {
        const auto end = std::ranges::find_if(rest, [&](const FamilySnapshot &one) {
            return one.description->name != rest.front().description->name;
        });
        const auto count = static_cast<std::size_t>(end - rest.begin());
        writer.add(rest.first(count));
        rest = rest.subspan(count);
    }
    for (const prometheus::MetricFamily &family : more) {
        writer.add(family);
    }
    return writer.finish();
}

}  // namespace gpusnoop::metrics
