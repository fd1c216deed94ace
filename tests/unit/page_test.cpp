#include "exporter/metrics/page.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace gpusnoop;
using Catch::Matchers::ContainsSubstring;
using metrics::to_metric_families;
using metrics::to_text;

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

}  // namespace

TEST_CASE("counters and gauges are shown in base units") {
    for (const auto &[type, word] :
         {std::pair(series::Type::counter, "counter"), std::pair(series::Type::gauge, "gauge")}) {
        series::Family one = family("seconds_total", type);
        one.add(one.slot(1, {"f"}), 1'500'000'000);
        one.add(one.slot(1, {"g\"\n\\"}), 0);
        CHECK(to_text(to_metric_families({one.snapshot()})) ==
              std::string("# HELP seconds_total What it is.\n# TYPE seconds_total ") + word +
                  "\nseconds_total{function=\"f\"} 1.5\n"
                  "seconds_total{function=\"g\\\"\\n\\\\\"} 0\n");
    }
}

TEST_CASE("snapshots of histograms with other buckets become one family") {
    const auto a = histogram("a", {1'000'000'000, 2'000'000'000}, {500'000'000, 3'000'000'000});
    const auto b = histogram("b", {5'000'000'000}, {5'000'000'000, 5'000'000'001});
    CHECK(to_text(to_metric_families({a.snapshot(), b.snapshot()})) ==
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
    const auto families = to_metric_families(snapshots);
    REQUIRE(families.size() == 3);
    CHECK(families[0].name == "b_total");
    CHECK(families[1].name == "a_total");
    CHECK(families[2].name == "c_total");
    std::vector<std::string> labels;
    for (const auto &one : families) {
        for (const auto &metric : one.metric) {
            REQUIRE(metric.label.size() == 1);
            labels.push_back(metric.label.front().value);
        }
    }
    CHECK(labels == std::vector<std::string>{"0", "1", "2", "3", "4", "5"});
    CHECK(to_metric_families({}).empty());
}

TEST_CASE("a family is left out only if all its snapshots are empty") {
    const auto empty = family("seconds", series::Type::histogram, {1}).snapshot();
    CHECK(to_text(to_metric_families({empty})).empty());
    CHECK(to_text(to_metric_families({empty, empty})).empty());
    const auto full = histogram("f", {1'000'000'000}, {1}).snapshot();
    const std::string alone = to_text(to_metric_families({full}));
    CHECK_THAT(alone, ContainsSubstring("# HELP seconds What it is.\n"));
    CHECK(to_text(to_metric_families({empty, full})) == alone);
    CHECK(to_text(to_metric_families({full, empty})) == alone);
}
