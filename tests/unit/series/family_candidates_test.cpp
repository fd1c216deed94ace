// Which of more label sets than its budget a family shows.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/unit/series/family_page.h"

using namespace gpusnoop::series;

TEST_CASE("a heavy kernel that comes after 100000 light ones is shown", "[bulk]") {
    Family family(launches(), 100);
    for (int i = 0; i < 100'000; i++) {
        family.add(family.slot(1, {"app", "k" + std::to_string(i), "1x1x1", "0"}), 1);
        REQUIRE(family.candidates() <= 400);
    }
    CHECK(family.size() == 101);
    CHECK(family.folded() == 99'950);  // half of the budget is for sets without the shape

    const LabelValues heavy = {"app", "heavy", "1x1x1", "0"};
    const Slot slot = family.slot(1, heavy);
    family.add(slot, 1'000);
    CHECK(sum_of(page_of(family)) == 101'000);
    CHECK_FALSE(page_of(family).contains(heavy));
    family.rebalance();
    CHECK(page_of(family).at(heavy) == 0);
    family.add(slot, 5);
    const Page page = page_of(family);
    CHECK(page.at(heavy) == 5);
    CHECK(sum_of(page) == 101'005);
    CHECK(page.size() == 101);
    CHECK(family.slot(1, heavy) == slot);
}

TEST_CASE("a kernel of many shapes is shown without them") {
    Family family(launches(), 20);
    for (int i = 0; i < 1'000; i++) {  // fills both halves of the budget
        family.add(family.slot(1, {"app", "k" + std::to_string(i), "1x1x1", "0"}), 1);
    }
    for (int i = 0; i < 50'000; i++) {
        family.add(family.slot(1, {"app", "heavy", std::to_string(i) + "x1x1", "0"}), 1);
        if (i % 1'000 == 0) {
            family.rebalance();
        }
    }
    const Page page = page_of(family);
    CHECK(page.at({"app", "heavy", "other", "0"}) > 40'000);
    CHECK(sum_of(page) == 51'000);
    CHECK(page.size() <= 21);
}

TEST_CASE("shapes past their half of the budget are counted with their kernel") {
    Family family(launches(), 4);
    for (int i = 0; i < 10; i++) {
        const std::string grid = std::to_string(i) + "x1x1";
        family.add(family.slot(1, {"app", i % 2 == 0 ? "a" : "b", grid, "0"}), 1);
    }
    CHECK(page_of(family) == Page{{{"app", "a", "0x1x1", "0"}, 1},
                                  {{"app", "b", "1x1x1", "0"}, 1},
                                  {{"app", "a", "other", "0"}, 4},
                                  {{"app", "b", "other", "0"}, 4}});
    // Somebody else's set of the same name may leave before ours.
    family.add(family.slot(2, {"app", "a", "9x9x9", "0"}), 7);
    CHECK(page_of(family).at({"other", "other", "other", "0"}) == 7);
    family.remove(1);
    CHECK(page_of(family) == Page{{{"other", "other", "other", "0"}, 7}});
}

TEST_CASE("a handle outlives that its label set is shown and folded") {
    Family family(calls(), 1);
    const Slot a = family.slot(1, {"a"});
    family.add(a, 10);
    const Slot b = family.slot(1, {"b"});
    family.add(b, 100'000);
    CHECK(page_of(family) == Page{{{"a"}, 10}, {other, 100'000}});
    family.rebalance();
    CHECK(page_of(family) == Page{{{"b"}, 0}, {other, 100'010}});
    family.add(a, 1);
    family.add(b, 2);
    CHECK(page_of(family) == Page{{{"b"}, 2}, {other, 100'011}});
    for (int i = 0; i < 100; i++) {  // what b did long ago does not keep it there
        family.rebalance();
    }
    family.add(a, 1'000);
    family.rebalance();
    family.add(a, 3);
    family.add(b, 4);
    CHECK(page_of(family) == Page{{{"a"}, 3}, {other, 101'017}});
    CHECK(family.slot(1, {"a"}) == a);
    CHECK(family.slot(1, {"b"}) == b);
    CHECK(family.folded() == 1);
    family.add(b, 100'000);
    family.rebalance();
    family.add(b, 1);
    CHECK(page_of(family) == Page{{{"b"}, 1}, {other, 201'020}});

    // Nor does what it counted when it was shown before.
    family.add(b, 500'000);
    std::uint64_t sum = 701'021;
    for (const Slot slot : {a, b, a}) {
        for (int i = 0; i < 150; i++) {
            family.rebalance();
        }
        family.add(slot, 1'000);
        family.rebalance();
        family.add(slot, 1);
        sum += 1'001;
        CHECK(page_of(family) == Page{{{slot == a ? "a" : "b"}, 1}, {other, sum - 1}});
    }
}

TEST_CASE("a light set gives way only to a far heavier one") {
    const auto shown_after = [](std::uint64_t shown, std::uint64_t candidate) {
        Family family(calls(), 1);
        family.add(family.slot(1, {"shown"}), shown);
        family.add(family.slot(1, {"candidate"}), candidate);
        family.rebalance();
        return page_of(family).begin()->first.front();
    };
    CHECK(shown_after(0, 63) == "other");
    CHECK(shown_after(0, 64) == "candidate");
    CHECK(shown_after(1'000, 7'999) == "other");
    CHECK(shown_after(1'000, 8'000) == "candidate");
}

TEST_CASE("a kernel is not as heavy as its shape that is shown") {
    Family family(launches(), 2);
    const Slot a1 = family.slot(1, {"app", "a", "1", "0"});
    const Slot a2 = family.slot(1, {"app", "a", "2", "0"});
    family.add(a1, 1'000'000);
    const LabelValues b1 = {"app", "b", "1", "0"};
    family.add(family.slot(1, b1), 1);
    for (int i = 0; i < 200; i++) {  // all of that was long ago
        family.rebalance();
    }
    CHECK(page_of(family).contains({"app", "a", "1", "0"}));
    family.add(a1, 50);
    family.add(family.slot(1, b1), 1'000);
    family.rebalance();
    // The other shapes of b are not heavy.
    CHECK(page_of(family) == Page{{b1, 0},
                                  {{"app", "a", "other", "0"}, 1'000'050},
                                  {{"other", "other", "other", "0"}, 1'001}});
    // What was added to a's shape lately makes a heavy, what was added long ago does not.
    const auto launch_c = [&](int times) {
        for (int i = 0; i < times; i++) {
            family.add(family.slot(1, {"app", "c", std::to_string(i % 4), "0"}), 1);
        }
        family.rebalance();
    };
    launch_c(250);
    CHECK(page_of(family).contains({"app", "a", "other", "0"}));
    launch_c(250);
    family.add(a2, 1);
    CHECK(page_of(family) == Page{{b1, 0},
                                  {{"app", "c", "other", "0"}, 0},
                                  {{"other", "other", "other", "0"}, 1'001'552}});
}

TEST_CASE("both halves of a budget have 16 swaps in common") {
    Family family(launches(), 80);
    for (int i = 0; i < 100; i++) {
        family.slot(1, {"app", "light" + std::to_string(i), "1", "0"});
    }
    for (int i = 0; i < 10; i++) {
        const std::string kernel = std::to_string(i);
        family.add(family.slot(1, {"app", "one" + kernel, "1", "0"}), 1'000);
        for (int shape = 0; shape < 10; shape++) {
            family.add(family.slot(1, {"app", "many" + kernel, std::to_string(shape), "0"}), 20);
        }
    }
    const Page before = page_of(family);
    family.rebalance();
    const auto left = std::ranges::count_if(
        page_of(family), [&](const auto &entry) { return !before.contains(entry.first); });
    CHECK(left == 16);
}

TEST_CASE("the heaviest candidates take the places of the lightest sets, 16 at a time") {
    Family family(calls(), 100);
    for (int i = 0; i < 100; i++) {
        family.add(family.slot(1, {"light" + std::to_string(i)}), static_cast<std::uint64_t>(i));
    }
    for (int i = 0; i < 40; i++) {
        family.add(family.slot(1, {"heavy" + std::to_string(i)}),
                   10'000 - static_cast<std::uint64_t>(i));
    }
    family.rebalance();
    Page page = page_of(family);
    CHECK(page.size() == 101);
    CHECK_FALSE(page.contains({"light15"}));
    CHECK(page.contains({"light16"}));
    CHECK(page.contains({"heavy15"}));
    CHECK_FALSE(page.contains({"heavy16"}));
    family.rebalance();
    family.rebalance();
    page = page_of(family);
    CHECK(page.contains({"heavy39"}));
    CHECK(page.contains({"light40"}));
    CHECK(sum_of(page) == 99 * 50 + 40 * 10'000 - 39 * 20);
    CHECK(family.candidates() == 40);
}

TEST_CASE("within the budget, and for gauges and histograms, nothing is rearranged") {
    Family within(calls(), 2);
    within.add(within.slot(1, {"a"}), 1);
    within.add(within.slot(1, {"b"}), 1'000'000);
    within.rebalance();
    CHECK(page_of(within) == Page{{{"a"}, 1}, {{"b"}, 1'000'000}});

    Family gauge(calls(Type::gauge), 1);
    gauge.add(gauge.slot(1, {"a"}), 1);
    gauge.add(gauge.slot(1, {"b"}), 1'000'000);
    gauge.rebalance();
    CHECK(page_of(gauge) == Page{{{"a"}, 1}, {other, 1'000'000}});
    CHECK(gauge.candidates() == 0);

    Description times = launches(Type::histogram);
    times.bounds = {10};
    Family histogram(times, 4);
    for (std::uint64_t i = 0; i < 100; i++) {
        const std::string kernel = "k" + std::to_string(i / 10);
        const Slot slot = histogram.slot(1, {"app", kernel, std::to_string(i), "0"});
        histogram.observe(slot, i);
    }
    histogram.rebalance();
    histogram.remove(2);
    const auto snapshot = histogram.snapshot();
    REQUIRE(snapshot.labels.size() == 5);  // two with shapes, two without, and "other"
    CHECK(*snapshot.labels[2] == LabelValues{"app", "k0", "other", "0"});
    CHECK(snapshot.values ==
          std::vector<std::uint64_t>{1, 0, 0, 1, 0, 1, 8, 0, 44, 1, 9, 145, 0, 80, 4'760});
}
