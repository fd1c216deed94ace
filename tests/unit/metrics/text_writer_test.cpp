// Our writer of the exposition formats: against prometheus-cpp's, and against what the formats say.
#include "exporter/metrics/text_writer.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "exporter/metrics/page.h"

using namespace gpusnoop;
using namespace gpusnoop::metrics;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

ClientMetric labelled(std::vector<ClientMetric::Label> labels) {
    ClientMetric metric;
    metric.label = std::move(labels);
    return metric;
}

MetricFamily family_of(std::string name, MetricType type, std::vector<ClientMetric> metrics) {
    return {std::move(name), "Help.", type, std::move(metrics)};
}

MetricFamily counter(std::string name, double value, std::vector<ClientMetric::Label> labels = {}) {
    ClientMetric metric = labelled(std::move(labels));
    metric.counter.value = value;
    return family_of(std::move(name), MetricType::Counter, {metric});
}

MetricFamily gauge(double value) {
    ClientMetric metric;
    metric.gauge.value = value;
    return family_of("g", MetricType::Gauge, {metric});
}

// Samples by name and labels, bounds as numbers. The comments are kept apart.
struct Read {
    std::map<std::string, double> samples;
    std::multiset<std::string> comments;
};

// prometheus-cpp writes 16 digits, which is not always enough for the same number.
bool is_same(const Read &ours, const Read &theirs) {
    return ours.comments == theirs.comments &&
           std::ranges::equal(ours.samples, theirs.samples, [](const auto &a, const auto &b) {
               return a.first == b.first &&
                      std::abs(a.second - b.second) <= 1e-15 * std::abs(a.second);
           });
}

std::string with_number(std::string key, const std::string &label) {
    const std::size_t at = key.find(label + "=\"");
    if (at != std::string::npos) {
        const std::size_t start = at + label.size() + 2;
        const std::size_t end = key.find('"', start);
        const double bound = std::strtod(key.substr(start, end - start).c_str(), nullptr);
        key.replace(start, end - start, std::to_string(bound));
    }
    return key;
}

Read read(const std::string &text) {
    Read all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('#')) {
            CHECK(all.comments.insert(line) != all.comments.end());
            continue;
        }
        // Ours has no label without a value; this one is never the first.
        if (const std::size_t empty = line.find(",text=\"\""); empty != std::string::npos) {
            line.erase(empty, std::string_view(",text=\"\"").size());
        }
        const std::size_t space = line.rfind(' ');
        const std::string key = with_number(with_number(line.substr(0, space), "le"), "quantile");
        const bool is_new =
            all.samples.emplace(key, std::strtod(line.c_str() + space + 1, nullptr)).second;
        CHECK(is_new);
    }
    return all;
}

MetricFamily random_family(std::mt19937_64 &random, const std::string &name) {
    constexpr std::array types = {MetricType::Counter, MetricType::Gauge, MetricType::Histogram,
                                  MetricType::Summary, MetricType::Untyped};
    const auto number = [&]() -> double {
        switch (random() % 4) {
            case 0:
                return static_cast<double>(random() % 1000);
            case 1:
                return static_cast<double>(random());
            case 2:
                return static_cast<double>(random() % 100'000) / 1e9;
            default:
                return -static_cast<double>(random() % 1000) / 7;
        }
    };
    MetricFamily family = family_of(name, types.at(random() % types.size()), {});
    for (std::uint64_t i = 0; i < 1 + random() % 5; i++) {
        ClientMetric metric = labelled({{"series", std::to_string(i)}});
        if (random() % 2 == 0) {
            std::string value;
            for (std::uint64_t c = 0; c < random() % 6; c++) {
                value += "a \\\"\n}{,=\xC3\xA9"[random() % 11];
            }
            metric.label.push_back({"text", value});
        }
        metric.counter.value = number();
        metric.gauge.value = number();
        metric.untyped.value = number();
        metric.summary = {random() % 100, number(), {{0.5, number()}, {0.99, number()}}};
        double bound = 0;
        std::uint64_t count = 0;
        for (std::uint64_t b = 0; b < random() % 4; b++) {
            metric.histogram.bucket.push_back({count += random() % 10, bound += 0.001});
        }
        metric.histogram.bucket.push_back(
            {count += random() % 10, std::numeric_limits<double>::infinity()});
        metric.histogram.sample_count = count;
        metric.histogram.sample_sum = number();
        family.metric.push_back(std::move(metric));
    }
    return family;
}

}  // namespace

TEST_CASE("text is what prometheus-cpp writes of the same families") {
    std::mt19937_64 random(1);
    for (int round = 0; round < 300; round++) {
        std::vector<MetricFamily> families;
        for (int i = 0; i < 4; i++) {
            families.push_back(random_family(random, "f" + std::to_string(i)));
        }
        const std::string theirs = prometheus::TextSerializer().Serialize(families);
        const std::string ours = write_families(Format::text, families);
        INFO(ours << "theirs:\n" << theirs);
        REQUIRE(read(ours).samples.size() >= 4);
        REQUIRE(is_same(read(ours), read(theirs)));
    }
}

TEST_CASE("a number is read as what it was") {
    std::mt19937_64 random(2);
    for (int i = 0; i < 10'000; i++) {
        const auto value = std::bit_cast<double>(random());
        if (!std::isfinite(value)) {
            continue;
        }
        REQUIRE(read(write_families(Format::text, {gauge(value)})).samples.at("g") == value);
    }
}

TEST_CASE("numbers are the shortest that read as the same") {
    for (const auto &[value, text] : std::vector<std::pair<double, std::string>>{
             {0, "0"},
             {-0.0, "-0"},
             {1, "1"},
             {-1, "-1"},
             {1'000'000, "1000000"},
             {9007199254740992.0, "9007199254740992"},
             {1e22, "1e+22"},
             {18446744073709551616.0, "18446744073709551616"},
             {0.1, "0.1"},
             {0.0005, "0.0005"},
             {0.00025, "0.00025"},
             {-0.000001, "-0.000001"},
             {1e-9, "0.000000001"},
             {1e-10, "1e-10"},
             {1.25e-7, "0.000000125"},
             {1234567890123.5, "1234567890123.5"},
             {0.30000000000000004, "0.30000000000000004"},
             {std::numeric_limits<double>::infinity(), "+Inf"},
             {-std::numeric_limits<double>::infinity(), "-Inf"},
             {std::numeric_limits<double>::quiet_NaN(), "NaN"}}) {
        CHECK(write_families(Format::text, {gauge(value)}) ==
              "# HELP g Help.\n# TYPE g gauge\ng " + text + "\n");
    }
}

TEST_CASE("help and label values are escaped as each format has it") {
    MetricFamily family = counter("x_total", 1, {{"a", "\\ \n \" }"}});
    family.help = "One\\two\n\"three\"";
    CHECK(write_families(Format::text, {family}) ==
          "# HELP x_total One\\\\two\\n\"three\"\n# TYPE x_total counter\n"
          "x_total{a=\"\\\\ \\n \\\" }\"} 1\n");
    CHECK(write_families(Format::openmetrics, {family}) ==
          "# HELP x One\\\\two\\n\\\"three\\\"\n# TYPE x counter\n"
          "x_total{a=\"\\\\ \\n \\\" }\"} 1\n# EOF\n");
}

TEST_CASE("OpenMetrics names types and units in its own way") {
    ClientMetric histogram = labelled({{"f", "x"}});
    histogram.histogram = {3, 2.5, {{1, 1}, {2, 0.5e-6}, {3, INFINITY}}};
    const std::vector<MetricFamily> families = {
        counter("a_seconds_total", 1.5),
        counter("b", 2),
        gauge(3),
        family_of("c_bytes_per_second", MetricType::Histogram, {histogram}),
        family_of("empty_seconds", MetricType::Gauge, {}),
        family_of("seconds", MetricType::Untyped, {ClientMetric()}),
    };
    CHECK(write_families(Format::openmetrics, families) ==
          "# HELP a_seconds Help.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n"
          "a_seconds_total 1.5\n"
          "# HELP b Help.\n# TYPE b unknown\nb 2\n"
          "# HELP g Help.\n# TYPE g gauge\ng 3\n"
          "# HELP c_bytes_per_second Help.\n# TYPE c_bytes_per_second histogram\n"
          "# UNIT c_bytes_per_second bytes_per_second\n"
          "c_bytes_per_second_bucket{f=\"x\",le=\"1.0\"} 1\n"
          "c_bytes_per_second_bucket{f=\"x\",le=\"0.0000005\"} 2\n"
          "c_bytes_per_second_bucket{f=\"x\",le=\"+Inf\"} 3\n"
          "c_bytes_per_second_sum{f=\"x\"} 2.5\nc_bytes_per_second_count{f=\"x\"} 3\n"
          "# HELP seconds Help.\n# TYPE seconds unknown\nseconds 0\n"
          "# EOF\n");
    CHECK(write_families(Format::openmetrics, {}) == "# EOF\n");
    CHECK(write_families(Format::text, {}).empty());
}

TEST_CASE("a counter's exemplar is in OpenMetrics only, and only if it is short") {
    const auto snapshots = [](std::vector<std::pair<std::string, std::string>> labels) {
        std::vector<series::FamilySnapshot> all;
        for (const auto &[name, type] :
             {std::pair("x_total", series::Type::counter), std::pair("y", series::Type::counter),
              std::pair("z_total", series::Type::gauge)}) {
            series::Family family({.name = name, .help = "Help.", .type = type, .labels = {{"f"}}},
                                  2);
            const auto slot = family.slot(1, {"g"});
            family.add(slot, 4);
            if (!labels.empty()) {
                family.set_exemplar(
                    slot, {labels, 0.25, std::chrono::nanoseconds(1'700'000'000'123'456'789)});
            }
            all.push_back(family.snapshot());
        }
        return all;
    };
    const auto openmetrics = [&](std::vector<std::pair<std::string, std::string>> labels) {
        return write_page(Format::openmetrics, snapshots(std::move(labels)), {});
    };
    CHECK(openmetrics({{"pid", "42"}, {"comm", "a\"b"}}) ==
          "# HELP x Help.\n# TYPE x counter\n"
          "x_total{f=\"g\"} 4 # {pid=\"42\",comm=\"a\\\"b\"} 0.25 1700000000.123\n"
          "# HELP y Help.\n# TYPE y unknown\ny{f=\"g\"} 4\n"
          "# HELP z_total Help.\n# TYPE z_total gauge\nz_total{f=\"g\"} 4\n# EOF\n");
    CHECK(write_page(Format::text, snapshots({{"pid", "42"}}), {}) ==
          write_page(Format::text, snapshots({}), {}));
    // Characters, not bytes; names count.
    std::string value;
    for (int i = 0; i < 125; i++) {
        value += "\xC3\xA9";
    }
    CHECK(openmetrics({{"pid", value}}).find(value) != std::string::npos);
    CHECK(openmetrics({{"pid", value + "x"}}) == openmetrics({}));
}

TEST_CASE("a family's exemplars find their samples on the page") {
    series::Family family({.name = "x_total", .help = "X.", .labels = {{"f"}}}, 2);
    const auto a = family.slot(1, {"a"});
    const auto b = family.slot(2, {"b"});
    const auto folded = family.slot(3, {"c"});
    const auto at = [](int second, double value) {
        return series::Exemplar{{{"pid", "1"}}, value, std::chrono::seconds(second)};
    };
    CHECK(family.snapshot().exemplars.empty());
    family.set_exemplar(b, at(20, 2));
    family.set_exemplar(b, at(10, 1));  // came later, but is older
    family.set_exemplar(folded, at(30, 3));
    family.add(a, 5);
    const auto text = [&] { return write_page(Format::openmetrics, {family.snapshot()}, {}); };
    CHECK(text() ==
          "# HELP x X.\n# TYPE x counter\nx_total{f=\"a\"} 5\n"
          "x_total{f=\"b\"} 0 # {pid=\"1\"} 2 20\nx_total{f=\"other\"} 0\n# EOF\n");
    family.remove(2);
    CHECK(text().find('#', text().find("x_total")) == text().find("# EOF"));
    // Who takes its place has none of its own.
    (void)family.slot(4, {"d"});
    CHECK(text().find("pid") == std::string::npos);
}

TEST_CASE("a histogram's exemplar is in the bucket that counts it") {
    const auto [value, line] = GENERATE(table<double, std::string>({
        {0.25, "x_seconds_bucket{le=\"0.5\"} 1 # {pid=\"1\"} 0.25 20\n"},
        {0.5, "x_seconds_bucket{le=\"0.5\"} 1 # {pid=\"1\"} 0.5 20\n"},
        {0.75, "x_seconds_bucket{le=\"1.0\"} 1 # {pid=\"1\"} 0.75 20\n"},
        {3, "x_seconds_bucket{le=\"+Inf\"} 1 # {pid=\"1\"} 3 20\n"},
    }));
    series::Family family({.name = "x_seconds",
                           .help = "X.",
                           .type = series::Type::histogram,
                           .labels = {},
                           .divisor = 1e9,
                           .bounds = {500'000'000, 1'000'000'000}},
                          2);
    const auto slot = family.slot(1, {});
    family.observe(slot, static_cast<std::uint64_t>(value * 1e9));
    const std::string plain = write_page(Format::openmetrics, {family.snapshot()}, {});
    family.set_exemplar(slot, {{{"pid", "1"}}, value, std::chrono::seconds(20)});
    const std::string text = write_page(Format::openmetrics, {family.snapshot()}, {});
    INFO(text);
    const std::size_t at = text.find(line);
    REQUIRE(at != std::string::npos);
    const std::size_t from = text.find(" #", at);
    CHECK(text.substr(0, from) + text.substr(text.find('\n', from)) == plain);
    CHECK(write_page(Format::text, {family.snapshot()}, {}).find("pid") == std::string::npos);
}

TEST_CASE("a client gets the format that it likes best") {
    const std::string prometheus_2 =
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q="
        "0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    const std::string prometheus_3 =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding="
        "delimited;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
        "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-"
        "utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    const std::string browser =
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
    for (const std::string &accept :
         {prometheus_2, prometheus_3, std::string("application/openmetrics-text"),
          std::string(" Application/OpenMetrics-Text ; Version=\"1.0.0\" "),
          std::string("text/plain;q=0.4, application/openmetrics-text; q=0.5"),
          std::string("application/openmetrics-text;x=\",;q=0\";q=0.2"),
          std::string("application/openmetrics-text;q=0.5,text/plain;q=0.5")}) {
        INFO(accept);
        CHECK(negotiate(accept) == Format::openmetrics);
    }
    for (const std::string &accept :
         {std::string(), browser, std::string("*/*"), std::string("text/plain"),
          std::string("text/plain;q=0.5,application/openmetrics-text;q=0.5"),
          std::string("text/plain;q=0.6,application/openmetrics-text;q=0.5"),
          std::string("*/*,application/openmetrics-text;q=0.9"),
          std::string("application/openmetrics-text;q=0"),
          std::string("application/openmetrics-text;q=x"),
          std::string("application/openmetrics-text;q=7"),
          std::string("application/openmetrics-text;version=0.0.1"),
          std::string("application/openmetrics-text;version=2.0.0"),
          std::string("application/openmetrics-textual"), std::string("application/*"),
          std::string("image/png"), std::string(",;,=;q,\"\\")}) {
        INFO(accept);
        CHECK(negotiate(accept) == Format::text);
    }
}
