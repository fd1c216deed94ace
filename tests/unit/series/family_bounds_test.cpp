// What a family keeps of label sets that it does not show, and for how long.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/unit/series/family_page.h"

using namespace gpusnoop::series;

TEST_CASE("a heavy kernel that came among light ones is not forgotten") {
    Family family(calls(), 10);
    const auto light = [&](int from, int to) {
        for (int i = from; i < to; i++) {
            family.add(family.slot(1, {"k" + std::to_string(i)}), 1);
        }
    };
    light(0, 5'000);
    const Slot heavy = family.slot(1, {"heavy"});
    family.add(heavy, 500);
    light(5'000, 10'000);
    family.rebalance();
    family.add(heavy, 3);
    CHECK(page_of(family).at({"heavy"}) == 3);
    CHECK(sum_of(page_of(family)) == 10'503);
}

TEST_CASE("what a candidate counted stays in other when its owner leaves") {
    Family family(calls(), 2);
    family.add(family.slot(1, {"a"}), 1);
    const Slot b = family.slot(2, {"b"});
    family.add(b, 2);
    family.add(family.slot(1, {"c"}), 4);
    const Slot d = family.slot(2, {"d"});
    family.add(d, 8);
    family.remove(1);
    CHECK(page_of(family) == Page{{{"b"}, 2}, {other, 12}});
    CHECK(family.candidates() == 1);
    family.rebalance();  // there is room
    family.add(b, 16);
    family.add(d, 32);
    CHECK(page_of(family) == Page{{{"b"}, 18}, {{"d"}, 32}, {other, 12}});
    family.remove(2);
    CHECK(page_of(family) == Page{{other, 12}});
    const Slot e = family.slot(3, {"e"});
    CHECK(page_of(family).at({"e"}) == 0);
    family.add(e, 1);
    CHECK(page_of(family) == Page{{{"e"}, 1}, {other, 12}});
}

TEST_CASE("the handle of a forgotten label set counts on") {
    Family family(calls(), 1);
    family.slot(1, {"shown"});
    std::vector<Slot> slots;
    for (int i = 0; i < 1'000; i++) {
        slots.push_back(family.slot(1, {std::to_string(i)}));
    }
    for (const Slot slot : slots) {
        family.add(slot, 1);
    }
    CHECK(page_of(family) == Page{{{"shown"}, 0}, {other, 1'000}});
    // It has its chance when it is asked for again.
    const Slot again = family.slot(1, {"0"});
    family.add(again, 64);
    family.rebalance();
    family.add(again, 1);
    family.add(slots[0], 1);
    CHECK(page_of(family) == Page{{{"0"}, 1}, {other, 1'065}});
    family.remove(1);
    CHECK(page_of(family) == Page{{other, 1'065}});
}

TEST_CASE("the oldest of equally light candidates are forgotten first") {
    for (int more = 0; more < 40; more++) {
        Family family(calls(), 10);
        const auto light = [&](const std::string &prefix, int count) {
            for (int i = 0; i < count; i++) {
                family.add(family.slot(1, {prefix + std::to_string(i)}), 1);
            }
        };
        light("before", 100 + more);
        const Slot slot = family.slot(1, {"heavy"});
        family.add(slot, 1);
        light("after", 25);
        family.add(slot, 1'000);
        family.rebalance();
        CHECK(page_of(family).contains({"heavy"}));
    }
}

TEST_CASE("handles are bounded, and those of removed owners are used again") {
    Family family(calls(), 1);
    std::uint32_t last = 0;
    const auto add = [&](Owner owner, int name) {
        const Slot slot = family.slot(owner, {std::to_string(name)});
        last = std::max(last, static_cast<std::uint32_t>(slot));
        family.add(slot, 1);
    };
    for (Owner owner = 1; owner < 1'000; owner++) {
        for (int i = 0; i < 20; i++) {
            add(owner, i);
        }
        family.remove(owner);
    }
    CHECK(last < 30);
    for (int i = 0; i < 270'000; i++) {
        add(1, i);
    }
    CHECK(last < 262'200);
    family.remove(1);
    CHECK(page_of(family) == Page{{other, 999 * 19 + 269'999}});
}

TEST_CASE("other does not leave with who asked for it by name") {
    Family family(calls(), 1);
    family.add(family.slot(1, other), 1);
    family.add(family.slot(1, {"a"}), 2);
    family.add(family.slot(2, {"b"}), 4);
    CHECK(family.folded() == 1);
    family.remove(1);
    CHECK(page_of(family) == Page{{other, 5}});

    Family shapes(launches(), 2);
    for (const char *grid : {"1", "2", "3"}) {
        shapes.add(shapes.slot(1, {"other", "other", grid, "0"}), 1);
    }
    shapes.remove(1);
    CHECK(page_of(shapes) == Page{{{"other", "other", "other", "0"}, 2}});
}
