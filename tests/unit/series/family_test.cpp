#include "exporter/series/family.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "exporter/metrics/page.h"

using namespace gpusnoop;
using series::Family;

namespace {

series::Description counter_of(std::vector<series::Label> labels) {
    return {.name = "calls_total", .help = "Calls.", .labels = std::move(labels)};
}

std::uint64_t total(const series::FamilySnapshot &snapshot) {
    return std::accumulate(snapshot.values.begin(), snapshot.values.end(), std::uint64_t{0});
}

}  // namespace

TEST_CASE("a label set has one place, whoever asks for it") {
    Family family(counter_of({{"comm"}, {"kind", true}}), 10);
    family.add(family.slot(1, {"a", "x"}), 2);
    family.add(family.slot(1, {"b", "x"}), 3);
    family.add(family.slot(1, {"a", "x"}), 5);
    const auto snapshot = family.snapshot();
    REQUIRE(snapshot.labels.size() == 2);
    CHECK(*snapshot.labels[0] == series::LabelValues{"a", "x"});
    CHECK(snapshot.values == std::vector<std::uint64_t>{7, 3});
}

TEST_CASE("a family without a budget is off: it takes everything and shows nothing") {
    series::Description description = counter_of({{"comm"}, {"kind", true}});
    description.type = series::Type::histogram;
    description.bounds = {1, 2};
    Family family(std::move(description), 0);
    const auto slot = family.slot(1, {"a", "x"});
    family.observe(slot, 2);
    family.observe_all(family.slot(2, {"b", "x"}), std::vector<std::uint64_t>{1, 2, 3, 4});
    family.set_exemplar(slot, {});
    family.rebalance();
    family.remove(1);
    family.remove_if([](const series::LabelValues &) { return true; });
    family.observe(slot, 2);
    CHECK(family.size() == 0);
    CHECK(family.folded() == 0);
    const auto snapshot = family.snapshot();
    CHECK(snapshot.labels.empty());
    CHECK(snapshot.values.empty());
    CHECK(metrics::write_page(metrics::Format::text, {snapshot}, {}).empty());
}

TEST_CASE("single label sets can leave, and come again at 0") {
    Family family(counter_of({{"comm"}, {"kind", true}}), 10);
    const auto a = family.slot(1, {"a", "x"});
    const auto b = family.slot(1, {"b", "x"});
    const auto c = family.slot(2, {"a", "y"});
    family.add(a, 2);
    family.add(b, 3);
    family.add(c, 4);
    family.remove_if([](const series::LabelValues &values) { return values[0] == "a"; });
    CHECK(family.size() == 1);
    family.add(b, 1);
    CHECK(family.value(b) == 4);
    const auto again = family.slot(1, {"a", "x"});
    CHECK(family.value(again) == 0);
    family.add(again, 1);
    CHECK(family.value(b) == 4);
    family.remove(1);
    family.remove(2);
    CHECK(family.size() == 0);
}

TEST_CASE("label sets of single removals that were folded leave their counts in \"other\"") {
    Family family(counter_of({{"comm"}}), 10);
    std::vector<series::Slot> slots;
    for (int i = 0; i < 40; i++) {
        slots.push_back(family.slot(1, {"c" + std::to_string(i)}));
        family.add(slots.back(), 1);
    }
    CHECK(total(family.snapshot()) == 40);
    // Half of those that are shown, and all of the others.
    family.remove_if(
        [](const series::LabelValues &values) { return values[0] > "c5" || values[0].size() > 2; });
    CHECK(family.candidates() == 0);
    CHECK(total(family.snapshot()) == 6 + 30);  // c0 to c5, and "other"
    for (int i = 0; i < 6; i++) {
        family.add(slots[static_cast<std::size_t>(i)], 1);
    }
    CHECK(total(family.snapshot()) == 12 + 30);
    for (int i = 0; i < 4; i++) {
        CHECK(family.value(family.slot(1, {"new" + std::to_string(i)})) == 0);
    }
    CHECK(family.folded() == 30);
}

TEST_CASE("past its budget a family folds the unbounded labels and keeps the totals") {
    Family family(counter_of({{"kernel"}, {"kind", true}}), 3);
    for (int i = 0; i < 100'000; i++) {
        const std::string kernel = "k" + std::to_string(i);
        family.add(family.slot(1, {kernel, i % 2 == 0 ? "even" : "odd"}), 1);
    }
    const auto snapshot = family.snapshot();
    CHECK(snapshot.labels.size() == 5);  // three of their own, and "other" of each kind
    CHECK(total(snapshot) == 100'000);
    CHECK(family.folded() == 99'997);
    CHECK(*snapshot.labels[3] == series::LabelValues{"other", "odd"});
    CHECK(*snapshot.labels[4] == series::LabelValues{"other", "even"});
}

TEST_CASE("an owner's label sets leave together and make room") {
    Family family(counter_of({{"comm"}}), 2);
    family.add(family.slot(1, {"a"}), 1);
    const series::Slot stays = family.slot(2, {"b"});
    family.add(stays, 7);
    family.remove(1);
    CHECK(family.size() == 1);
    family.add(stays, 1);
    family.add(family.slot(3, {"c"}), 4);  // takes the free place, from 0
    const auto snapshot = family.snapshot();
    CHECK(total(snapshot) == 12);
    CHECK(snapshot.labels.size() == 2);
    CHECK(family.folded() == 0);
}

TEST_CASE("the place that everything past the budget shares never leaves") {
    Family family(counter_of({{"comm"}}), 1);
    family.add(family.slot(1, {"a"}), 1);
    family.add(family.slot(2, {"b"}), 2);
    family.remove(2);
    family.remove(0);
    CHECK(total(family.snapshot()) == 3);
}

TEST_CASE("a histogram's bucket holds values up to and with its bound") {
    Family family({.name = "seconds",
                   .help = "Time.",
                   .type = series::Type::histogram,
                   .labels = {{"op", true}},
                   .divisor = 1e9,
                   .bounds = {1'000, 1'000'000}},
                  10);
    const series::Slot slot = family.slot(1, {"x"});
    for (const std::uint64_t value : {0ULL, 1'000ULL, 1'001ULL, 1'000'000ULL, 5'000'000'000ULL}) {
        family.observe(slot, value);
    }
    const auto snapshot = family.snapshot();
    CHECK(snapshot.values == std::vector<std::uint64_t>{2, 2, 1, 5'001'002'001});

    const std::string text = metrics::write_page(metrics::Format::text, {snapshot}, {});
    CHECK(text ==
          "# HELP seconds Time.\n# TYPE seconds histogram\n"
          "seconds_bucket{op=\"x\",le=\"0.000001\"} 2\nseconds_bucket{op=\"x\",le=\"0.001\"} 4\n"
          "seconds_bucket{op=\"x\",le=\"+Inf\"} 5\n"
          "seconds_sum{op=\"x\"} 5.001002001\nseconds_count{op=\"x\"} 5\n");
}

TEST_CASE("a family without label sets is not on the page, and values are escaped") {
    Family empty(counter_of({{"comm"}}), 10);
    Family hostile({.name = "x", .help = "X.", .type = series::Type::gauge, .labels = {{"comm"}}},
                   10);
    hostile.add(hostile.slot(1, {"a\"}\n\\b"}), 3);
    const std::string text =
        metrics::write_page(metrics::Format::text, {empty.snapshot(), hostile.snapshot()}, {});
    CHECK(text == "# HELP x X.\n# TYPE x gauge\nx{comm=\"a\\\"}\\n\\\\b\"} 3\n");
}
