#include "exporter/probes/functions/attach/attach_plan.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <vector>

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

SelectedFunction at(std::uint64_t entry, ExitStrategy ending = ExitStrategy::return_probe,
                    std::string name = "f") {
    return {.group = "group",
            .name = name,
            .symbol = std::move(name),
            .options = std::make_shared<const probes::FunctionOptions>(),
            .entry = entry,
            .entry_probe = {.file_offset = entry},
            .ending = ending};
}

struct Places {
    std::vector<AttachedFunction> all;

    explicit Places(const std::vector<SelectedFunction> &functions) {
        for (const SelectedFunction &function : functions) {
            all.push_back({.function = function});
        }
    }
    AttachPlan plan(const std::vector<SelectedFunction> &wanted) {
        std::vector<AttachedFunction *> places;
        for (AttachedFunction &place : all) {
            places.push_back(&place);
        }
        return plan_change(places, wanted);
    }
};

}  // namespace

TEST_CASE("functions that stay keep their probes, others are added and dropped") {
    Places places({at(1), at(2), at(3)});
    const std::vector<SelectedFunction> wanted = {at(2), at(3, ExitStrategy::return_probe, "other"),
                                                  at(4)};
    const AttachPlan plan = places.plan(wanted);
    REQUIRE(plan.keep.size() == 2);
    CHECK(plan.keep[0] ==
          std::pair<AttachedFunction *, const SelectedFunction *>(&places.all[1], &wanted[0]));
    // What it is shown as needs no other probes.
    CHECK(plan.keep[1] ==
          std::pair<AttachedFunction *, const SelectedFunction *>(&places.all[2], &wanted[1]));
    CHECK(plan.add == std::vector<const SelectedFunction *>{&wanted[2]});
    CHECK(plan.drop == std::vector<AttachedFunction *>{&places.all[0]});
}

TEST_CASE("a function that is followed in another way has other probes") {
    SelectedFunction exits = at(1, ExitStrategy::exits);
    exits.exits = {{10, symbols::ExitKind::return_}};
    SelectedFunction more_exits = exits;
    more_exits.exits.push_back({20, symbols::ExitKind::tail_call});
    SelectedFunction jumps = exits;
    jumps.jumps_to_entry = true;
    SelectedFunction behind = exits;
    behind.entry_probe.file_offset += 4;
    for (const SelectedFunction &other :
         {at(1, ExitStrategy::none), at(1), more_exits, jumps, behind}) {
        Places places({exits});
        const std::vector<SelectedFunction> wanted = {other};
        const AttachPlan plan = places.plan(wanted);
        CHECK(plan.keep.empty());
        CHECK(plan.add.size() == 1);
        CHECK(plan.drop.size() == 1);
    }
    Places places({exits});
    CHECK(places.plan({exits}).keep.size() == 1);
}

TEST_CASE("probes that are muted are used again, and not dropped twice") {
    Places places({at(1), at(2)});
    places.all[0].is_wanted = false;
    AttachPlan plan = places.plan({});
    CHECK(plan.drop == std::vector<AttachedFunction *>{&places.all[1]});
    const std::vector<SelectedFunction> wanted = {at(1)};
    plan = places.plan(wanted);
    REQUIRE(plan.keep.size() == 1);
    CHECK(plan.keep[0].first == &places.all[0]);
    CHECK(plan.add.empty());
}

TEST_CASE("of several probes at one place those that count are kept") {
    Places places({at(1), at(1, ExitStrategy::none), at(1)});
    places.all[0].is_wanted = false;
    places.all[1].is_wanted = false;
    const std::vector<SelectedFunction> as_now = {at(1)};
    AttachPlan plan = places.plan(as_now);
    REQUIRE(plan.keep.size() == 1);
    CHECK(plan.keep[0].first == &places.all[2]);
    CHECK(plan.drop.empty());
    const std::vector<SelectedFunction> at_entry = {at(1, ExitStrategy::none)};
    plan = places.plan(at_entry);
    REQUIRE(plan.keep.size() == 1);
    CHECK(plan.keep[0].first == &places.all[1]);
    CHECK(plan.drop == std::vector<AttachedFunction *>{&places.all[2]});
    CHECK(plan.add.empty());
}
