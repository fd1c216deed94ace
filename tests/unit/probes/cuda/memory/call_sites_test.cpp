// Call sites, without the memory that was allocated there.
#include "exporter/probes/cuda/memory/call_sites.h"

#include <catch2/catch_test_macros.hpp>

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
