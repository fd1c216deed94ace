#include "exporter/probes/cuda/memory/live_allocations.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <unordered_map>

#include "tests/unit/sanitized.h"

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

Allocation born(std::chrono::nanoseconds at, std::uint64_t bytes,
                cuda_memory_kind kind = MEMORY_device, std::int32_t device = 0, Site site = {}) {
    return {.bytes = bytes,
            .born_ns = at.count(),
            .context = 0,
            .site = site,
            .device = device,
            .kind = kind};
}

LiveAllocations::Key key(std::uint64_t address, std::chrono::nanoseconds at) {
    return {false, address, at.count()};
}

struct LiveFixture {
    std::pmr::unsynchronized_pool_resource memory;
    LiveAllocations live{&memory};
};

}  // namespace

TEST_CASE("a free gives back what was allocated at its address and time") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    CHECK(live.allocate(0x1000, born(1s, 100)));
    CHECK(live.allocate(0x2000, born(1s, 50)));
    CHECK(live.all() == Amount{150, 2});
    CHECK_FALSE(live.free(key(0x1000, 2s)));
    CHECK_FALSE(live.free(key(0x2010, 1s)));
    CHECK_FALSE(live.free({true, 0x1000, 1'000'000'000}));
    CHECK(live.free(key(0x1000, 1s)));
    CHECK_FALSE(live.free(key(0x1000, 1s)));
    CHECK(live.all() == Amount{50, 1});
}

TEST_CASE("an allocation that is told twice counts once") {
    LiveFixture fixture;
    CHECK(fixture.live.allocate(0x1000, born(1s, 100)));
    CHECK_FALSE(fixture.live.allocate(0x1000, born(1s, 100)));
    CHECK(fixture.live.all() == Amount{100, 1});
}

TEST_CASE("an address allocated again before its free is heard of keeps both apart") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    live.allocate(0x1000, born(1s, 100));
    live.allocate(0x1000, born(2s, 30));
    CHECK(live.all() == Amount{130, 2});
    SECTION("until the free comes") {
        CHECK(live.free(key(0x1000, 1s)));
        CHECK(live.all() == Amount{30, 1});
        CHECK(live.free(key(0x1000, 2s)));
        CHECK(live.all() == Amount{0, 0});
    }
    SECTION("or it is known that none will") {
        live.allocate(0x1001, born(1s, 5));
        live.allocate(0xfff, born(1s, 7));
        live.allocate(0x1000, born(1s, 11, MEMORY_vmm));  // a handle of the same number
        live.forget_older(key(0x1000, 2s));
        CHECK(live.all() == Amount{30 + 5 + 7 + 11, 4});
        CHECK(live.free(key(0x1000, 2s)));
    }
}

TEST_CASE("handles and addresses of the same number are two things") {
    LiveFixture fixture;
    fixture.live.allocate(0x1000, born(1s, 100, MEMORY_vmm));
    fixture.live.allocate(0x1000, born(1s, 30));
    CHECK(fixture.live.all() == Amount{130, 2});
    CHECK(fixture.live.free({true, 0x1000, 1'000'000'000}));
    CHECK(fixture.live.all() == Amount{30, 1});
}

TEST_CASE(
    "allocations of no bytes, and sizes that wrap, leave the live allocations as they found them") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1} << 63U}) {
        live.allocate(0x1000, born(1s, size));
        live.allocate(0x2000, born(1s, size));
        CHECK(live.free(key(0x1000, 1s)));
        CHECK(live.all() == Amount{size, 1});
        CHECK(live.free(key(0x2000, 1s)));
        CHECK(live.all() == Amount{0, 0});
        CHECK(live.parts().empty());
        CHECK(live.sites().empty());
        CHECK(live.aged_bytes(5'000s) == std::array<std::uint64_t, 3>{});
    }
}

TEST_CASE("an address inside an allocation is on the device, one at its end is not") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    CHECK_FALSE(live.is_on_device(0x1000));
    live.allocate(0x1000, born(1s, 0x100));
    CHECK_FALSE(live.is_on_device(0xfff));
    CHECK(live.is_on_device(0x1000));
    CHECK(live.is_on_device(0x10ff));
    CHECK_FALSE(live.is_on_device(0x1100));
    CHECK_FALSE(live.is_on_device(UINT64_MAX));
}

TEST_CASE("pinned memory is the host's, all other memory is a device's") {
    LiveFixture fixture;
    for (const auto kind : {MEMORY_device, MEMORY_async, MEMORY_managed, MEMORY_pinned_host}) {
        const std::uint64_t address = 0x1000 * (1 + std::uint64_t{kind});
        fixture.live.allocate(address, born(1s, 0x100, kind));
        CHECK(fixture.live.is_on_device(address + 8) == (kind != MEMORY_pinned_host));
    }
    fixture.live.allocate(0x9000, born(1s, 0x100, MEMORY_vmm));
    CHECK_FALSE(fixture.live.is_on_device(0x9000));  // a handle is no address
}

TEST_CASE("addresses lead to memory with a handle while they are mapped") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    live.map(0x10000, {0x1000, 2});
    live.map(0x11000, {0x1000, 2});
    live.map(0x20000, {0x1000, 2});
    CHECK_FALSE(live.is_on_device(0xffff));
    CHECK(live.is_on_device(0x10000));
    CHECK(live.is_on_device(0x11fff));
    CHECK_FALSE(live.is_on_device(0x12000));
    CHECK(live.unmap(0x10000, 0x2000, 3).size() == 2);
    CHECK_FALSE(live.is_on_device(0x10800));
    CHECK_FALSE(live.is_on_device(0x11800));
    CHECK(live.is_on_device(0x20800));
    CHECK(live.all() == Amount{0, 0});
}

TEST_CASE("the youngest mapping at an address is the one, in whatever order they become known") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    live.map(0x10000, {0x1000, 6, true});
    live.map(0x10000, {0x1000, 2});
    CHECK_FALSE(live.is_on_device(0x10000));
    CHECK(live.unmap(0x10000, 0x1000, 5).empty());  // it was the older one's
    live.map(0x10000, {0x1000, 8});
    CHECK(live.is_on_device(0x10000));
    CHECK(live.unmap(0x10000, 0x1000, 9) == std::vector<LiveAllocations::Key>{{false, 0x10000, 8}});
}

TEST_CASE("live allocations have sums by device, by kind and by call site") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    live.allocate(0x1000, born(1s, 100, MEMORY_device, 0, {7, 0x40}));
    live.allocate(0x2000, born(1s, 50, MEMORY_device, 1, {7, 0x40}));
    live.allocate(0x3000, born(1s, 20, MEMORY_managed, 1, {-1, 0x40}));
    live.allocate(0x4000, born(1s, 3, MEMORY_managed, 1, {-1, 0x44}));
    CHECK(live.parts().size() == 3);
    CHECK(live.parts().at({0, MEMORY_device}) == Amount{100, 1});
    CHECK(live.parts().at({1, MEMORY_device}) == Amount{50, 1});
    CHECK(live.parts().at({1, MEMORY_managed}) == Amount{23, 2});
    CHECK(live.sites().size() == 3);
    CHECK(live.sites().at({7, 0x40}) == Amount{150, 2});
    CHECK(live.free(key(0x1000, 1s)));
    CHECK(live.parts().size() == 2);
    CHECK(live.sites().at({7, 0x40}) == Amount{50, 1});
}

TEST_CASE("bytes grow old and leave the age classes when they are freed") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    using Ages = std::array<std::uint64_t, 3>;
    live.allocate(0x1000, born(10s, 100));
    live.allocate(0x2000, born(100s, 10));
    CHECK(live.aged_bytes(70'999ms) == Ages{0, 0, 0});
    CHECK(live.aged_bytes(71s) == Ages{100, 0, 0});
    CHECK(live.aged_bytes(161s) == Ages{110, 0, 0});
    CHECK(live.aged_bytes(611s) == Ages{110, 100, 0});
    CHECK(live.aged_bytes(3'611s) == Ages{110, 110, 100});
    CHECK(live.free(key(0x1000, 10s)));
    CHECK(live.aged_bytes(3'701s) == Ages{10, 10, 10});
}

TEST_CASE("times of birth that cannot be are no trap") {
    LiveFixture fixture;
    for (const std::int64_t at : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, INT64_MAX}) {
        fixture.live.allocate(0x1000, born(std::chrono::nanoseconds(at), 1));
        (void)fixture.live.aged_bytes(5'000s);
        fixture.live.forget_older({false, 0x1000, at});
        CHECK(fixture.live.free({false, 0x1000, at}));
    }
    CHECK(fixture.live.all() == Amount{0, 0});
}

TEST_CASE("a million random allocations and frees leave the sums of a plain map") {
    LiveFixture fixture;
    LiveAllocations &live = fixture.live;
    std::unordered_map<std::uint64_t, Allocation> model;
    Amount all;
    std::mt19937_64 random(7);
    for (int i = 0; i < random_rounds(1'000'000); i++) {
        const std::uint64_t address = (random() % 5'000) << 12U;
        if (const auto known = model.find(address); known == model.end()) {
            const auto kind = static_cast<cuda_memory_kind>(random() % MEMORY_vmm);
            const auto one = born(std::chrono::milliseconds(i), random() % 10'000, kind,
                                  static_cast<std::int32_t>(random() % 3));
            REQUIRE(live.allocate(address, one));
            model.emplace(address, one);
            all.bytes += one.bytes;
            all.count++;
        } else {
            REQUIRE(live.free({false, address, known->second.born_ns}));
            all.bytes -= known->second.bytes;
            all.count--;
            model.erase(known);
        }
    }
    CHECK(live.all() == all);
    std::map<LiveAllocations::Part, Amount> parts;
    for (const auto &[address, one] : model) {
        Amount &part = parts[{one.device, one.kind}];
        part.bytes += one.bytes;
        part.count++;
    }
    CHECK(std::map(live.parts().begin(), live.parts().end()) == parts);
}
