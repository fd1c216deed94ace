#include "exporter/metrics/page.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/metrics/metric_model.h"

using namespace gpusnoop;
using Catch::Matchers::ContainsSubstring;
using metrics::Format;
using metrics::write_page;

namespace {

series::Family family(std::string name, series::Type type, std::vector<std::uint64_t> bounds = {}) {
    return series::Family({.name = std::move(name),
                           .help = "What it is.",
                           .type = type,
                           .labels = {{"function"}},
                           .divisor = 1e9,
                           .bounds = std::move(bounds)},
                          100);
}

series::Family histogram(const std::string &function, std::vector<std::uint64_t> bounds,
                         const std::vector<std::uint64_t> &values) {
    series::Family one = family("seconds", series::Type::histogram, std::move(bounds));
    const auto slot = one.slot(1, {function});
    for (const std::uint64_t value : values) {
        one.observe(slot, value);
    }
    return one;
}

std::string text_of(const std::vector<series::FamilySnapshot> &snapshots) {
    return write_page(Format::text, snapshots, {});
}

// Of a few names, and with a few label sets, so that those of several snapshots meet.
series::FamilySnapshot random_snapshot(std::mt19937_64 &random) {
    constexpr std::array types = {series::Type::counter, series::Type::gauge,
                                  series::Type::histogram};
    const std::size_t kind = random() % types.size();
    series::Description description{.name = std::array{"a_total", "b_bytes", "c_seconds"}.at(kind),
                                    .help = "What \"it\"\\is.",
                                    .type = types.at(kind),
                                    .labels = {{"function"}, {"gpu", true}},
                                    .divisor = random() % 2 == 0 ? 1e9 : 1};
    for (std::uint64_t bound = 1; kind == 2 && bound < 1'000'000'000'000; bound *= 10) {
        if (random() % 3 != 0) {
            description.bounds.push_back(bound);
        }
    }
    series::Family family(std::move(description), 100);
    for (std::uint64_t i = 0; i < random() % 5; i++) {
        const auto slot = family.slot(1, {"f\"" + std::to_string(random() % 6), "0"});
        for (std::uint64_t value = 0; value < random() % 8; value++) {
            const std::uint64_t number = random() >> (24 + random() % 40);
            kind == 2 ? family.observe(slot, number) : family.add(slot, number);
        }
    }
    return family.snapshot();
}

}  // namespace

TEST_CASE("counters and gauges are shown in base units") {
    for (const auto &[type, word] :
         {std::pair(series::Type::counter, "counter"), std::pair(series::Type::gauge, "gauge")}) {
        series::Family one = family("seconds_total", type);
        one.add(one.slot(1, {"f"}), 1'500'000'000);
        one.add(one.slot(1, {"g\"\n\\"}), 0);
        CHECK(text_of({one.snapshot()}) ==
              std::string("# HELP seconds_total What it is.\n# TYPE seconds_total ") + word +
                  "\nseconds_total{function=\"f\"} 1.5\n"
                  "seconds_total{function=\"g\\\"\\n\\\\\"} 0\n");
    }
}

TEST_CASE("snapshots of histograms with other buckets become one family") {
    const auto a = histogram("a", {1'000'000'000, 2'000'000'000}, {500'000'000, 3'000'000'000});
    const auto b = histogram("b", {5'000'000'000}, {5'000'000'000, 5'000'000'001});
    CHECK(text_of({a.snapshot(), b.snapshot()}) ==
          "# HELP seconds What it is.\n"
          "# TYPE seconds histogram\n"
          "seconds_bucket{function=\"a\",le=\"1\"} 1\n"
          "seconds_bucket{function=\"a\",le=\"2\"} 1\n"
          "seconds_bucket{function=\"a\",le=\"+Inf\"} 2\n"
          "seconds_sum{function=\"a\"} 3.5\n"
          "seconds_count{function=\"a\"} 2\n"
          "seconds_bucket{function=\"b\",le=\"5\"} 1\n"
          "seconds_bucket{function=\"b\",le=\"+Inf\"} 2\n"
          "seconds_sum{function=\"b\"} 10.000000001\n"
          "seconds_count{function=\"b\"} 2\n");
}

TEST_CASE("only snapshots of one name are merged, and in their order") {
    std::vector<series::FamilySnapshot> snapshots;
    for (const char *name : {"b_total", "b_total", "a_total", "a_total", "a_total", "c_total"}) {
        series::Family one = family(name, series::Type::counter);
        one.add(one.slot(1, {std::to_string(snapshots.size())}), 1);
        snapshots.push_back(one.snapshot());
    }
    CHECK(text_of(snapshots) ==
          "# HELP b_total What it is.\n# TYPE b_total counter\n"
          "b_total{function=\"0\"} 0.000000001\nb_total{function=\"1\"} 0.000000001\n"
          "# HELP a_total What it is.\n# TYPE a_total counter\n"
          "a_total{function=\"2\"} 0.000000001\na_total{function=\"3\"} 0.000000001\n"
          "a_total{function=\"4\"} 0.000000001\n"
          "# HELP c_total What it is.\n# TYPE c_total counter\n"
          "c_total{function=\"5\"} 0.000000001\n");
    CHECK(text_of({}).empty());
}

// Label sets that several snapshots have are merged, also of histograms with other buckets.
TEST_CASE("the page is the text of the same families in prometheus-cpp's data model") {
    std::mt19937_64 random(1);
    std::size_t merged = 0;
    for (int round = 0; round < 500; round++) {
        std::vector<series::FamilySnapshot> snapshots;
        for (int i = 0; i < 6; i++) {
            snapshots.push_back(random_snapshot(random));
        }
        const auto families = metrics::to_metric_families(snapshots);
        merged += snapshots.size() - families.size();
        for (const Format format : {Format::text, Format::openmetrics}) {
            REQUIRE(write_page(format, snapshots, {}) == metrics::write_families(format, families));
            REQUIRE(write_page(format, {}, families) == metrics::write_families(format, families));
        }
    }
    CHECK(merged > 500);
}

TEST_CASE("a family is left out only if all its snapshots are empty") {
    const auto empty = family("seconds", series::Type::histogram, {1}).snapshot();
    CHECK(text_of({empty}).empty());
    CHECK(text_of({empty, empty}).empty());
    const auto full = histogram("f", {1'000'000'000}, {1}).snapshot();
    const std::string alone = text_of({full});
    CHECK_THAT(alone, ContainsSubstring("# HELP seconds What it is.\n"));
    CHECK(text_of({empty, full}) == alone);
    CHECK(text_of({full, empty}) == alone);
}
