// Call sites, without the memory that was allocated there.
#include "exporter/probes/cuda/memory/call_sites.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "tests/unit/probes/cuda/part_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

struct SitesFixture : PartFixture {
    std::vector<std::uint64_t> tickets;
    std::vector<std::int32_t> forgotten;
    CallSites sites{processes, callbacks};

    SitesFixture() : PartFixture(CallSites::started) {
        callbacks.ask_for_site = [this](auto ticket, const auto &, const auto &) {
            tickets.push_back(ticket);
        };
        callbacks.forget_stack = [this](std::int32_t stack) { forgotten.push_back(stack); };
    }
};

}  // namespace

TEST_CASE("a call site has no name until one comes for it") {
    SitesFixture fixture;
    Process &process = fixture.process();
    fixture.sites.used(process, {7, 0x40});
    fixture.sites.used(process, {7, 0x40});
    fixture.sites.used(process, {7, 0x44});
    REQUIRE(fixture.tickets.size() == 2);
    CHECK(CallSites::name_of(process, {7, 0x40}).label.empty());
    fixture.sites.on_name({fixture.tickets[0], {{"train", "program", 1}}});
    fixture.sites.on_name({fixture.tickets[0], {{"twice", "program", 1}}});
    fixture.sites.on_name({fixture.tickets[1], {}});
    CHECK(CallSites::name_of(process, {7, 0x40}).label == "train");
    CHECK(CallSites::name_of(process, {7, 0x44}).label == "unknown");
    CHECK(CallSites::name_of(process, {8, 0x40}).label.empty());
    CHECK(CallSites::name_of(fixture.process(43), {7, 0x40}).label.empty());
}

TEST_CASE("the last process that used a stack has it forgotten") {
    SitesFixture fixture;
    fixture.sites.used(fixture.process(), {7, 0x40});
    fixture.sites.used(fixture.process(), {7, 0x44});
    fixture.sites.used(fixture.process(), {-1, 0x44});
    fixture.sites.used(fixture.process(43), {7, 0x40});
    fixture.sites.used(fixture.process(43), {8, 0x40});
    fixture.sites.ended(fixture.process());
    CHECK(fixture.forgotten.empty());
    fixture.sites.ended(fixture.process(43));
    std::ranges::sort(fixture.forgotten);
    CHECK(fixture.forgotten == std::vector{7, 8});
}

TEST_CASE("the name that comes with a site's functions is taken") {
    SitesFixture fixture;
    fixture.sites.used(fixture.process(), {7, 0x40, 12});
    fixture.sites.used(fixture.process(), {7, 0x40, 13});
    REQUIRE(fixture.tickets.size() == 2);
    fixture.sites.on_name({.ticket = fixture.tickets[0],
                           .frames = {{"ffi_call", "libffi.so", 1}},
                           .label = "train.py:step:7"});
    fixture.sites.on_name({.ticket = fixture.tickets[1], .frames = {{"main", "program", 1}}});
    CHECK(CallSites::name_of(fixture.process(), {7, 0x40, 12}).label == "train.py:step:7");
    CHECK(frames_of(CallSites::name_of(fixture.process(), {7, 0x40, 12}).stack).size() == 1);
    CHECK(CallSites::name_of(fixture.process(), {7, 0x40, 13}).label == "main");
}

TEST_CASE("a site that holds nothing for two looks is forgotten, and asked for again") {
    SitesFixture fixture;
    Process &process = fixture.process();
    const Site idle{7, 0x40, 12};
    const Site used{7, 0x40, 13};
    const Site kept{8, 0x40};
    const auto holds = [&](const Site &site) { return site == kept; };
    for (const Site &site : {idle, used, kept}) {
        fixture.sites.used(process, site);
    }
    for (const std::uint64_t ticket : fixture.tickets) {
        fixture.sites.on_name({ticket, {{"train", "program", 1}}});
    }
    CallSites::forget_idle(process, holds);
    CHECK(CallSites::name_of(process, idle).label == "train");
    fixture.sites.used(process, used);
    CallSites::forget_idle(process, holds);
    CHECK(CallSites::name_of(process, idle).label.empty());
    CHECK(CallSites::name_of(process, used).label == "train");
    CHECK(CallSites::name_of(process, kept).label == "train");
    CHECK(fixture.tickets.size() == 3);
    fixture.sites.used(process, idle);
    REQUIRE(fixture.tickets.size() == 4);

    // Its name comes too late.
    CallSites::forget_idle(process, holds);
    CallSites::forget_idle(process, holds);
    fixture.sites.on_name({fixture.tickets[3], {{"late", "program", 1}}});
    CHECK(CallSites::name_of(process, idle).label.empty());
}
