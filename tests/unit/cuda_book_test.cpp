#include "exporter/probes/cuda_book.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <unordered_map>

using gpusnoop::probes::AllocationBook;
using namespace std::chrono_literals;

TEST_CASE("a free gives back what was allocated at its address") {
    std::pmr::unsynchronized_pool_resource memory;
    AllocationBook book(&memory);
    book.allocate(0x1000, 100, 1s);
    book.allocate(0x2000, 50, 1s);
    CHECK(book.bytes() == 150);
    CHECK(book.free(0x1000) == 100);
    CHECK(book.free(0x1000) == std::nullopt);
    CHECK(book.free(0x2010) == std::nullopt);
    CHECK(book.bytes() == 50);
    CHECK(book.count() == 1);
}

TEST_CASE("an address allocated again before its free is heard of is freed oldest first") {
    std::pmr::unsynchronized_pool_resource memory;
    AllocationBook book(&memory);
    book.allocate(0x1000, 100, 1s);
    book.allocate(0x1000, 30, 2s);
    CHECK(book.free(0x1000) == 100);
    CHECK(book.bytes() == 30);
    CHECK(book.free(0x1000) == 30);
    CHECK(book.count() == 0);
}

TEST_CASE("allocations of no bytes, and sizes that wrap, leave the book as they found it") {
    std::pmr::unsynchronized_pool_resource memory;
    AllocationBook book(&memory);
    for (const std::uint64_t size : {0ULL, 1ULL << 63U}) {
        book.allocate(0x1000, size, 1s);
        book.allocate(0x2000, size, 1s);
        CHECK(book.free(0x1000) == size);
        CHECK(book.free(0x2000) == size);
        CHECK(book.bytes() == 0);
        CHECK(book.count() == 0);
        CHECK(book.aged_bytes(5'000s) == std::array<std::uint64_t, 3>{});
    }
}

TEST_CASE("an address inside an allocation is on the device, one at its end is not") {
    std::pmr::unsynchronized_pool_resource memory;
    AllocationBook book(&memory);
    CHECK_FALSE(book.contains(0x1000));
    book.allocate(0x1000, 0x100, 1s);
    CHECK_FALSE(book.contains(0xfff));
    CHECK(book.contains(0x1000));
    CHECK(book.contains(0x10ff));
    CHECK_FALSE(book.contains(0x1100));
}

TEST_CASE("bytes grow old and leave the age classes when they are freed") {
    std::pmr::unsynchronized_pool_resource memory;
    AllocationBook book(&memory);
    using Ages = std::array<std::uint64_t, 3>;
    book.allocate(0x1000, 100, 10s);
    book.allocate(0x2000, 10, 100s);
    CHECK(book.aged_bytes(69s) == Ages{0, 0, 0});
    CHECK(book.aged_bytes(71s) == Ages{100, 0, 0});
    CHECK(book.aged_bytes(161s) == Ages{110, 0, 0});
    CHECK(book.aged_bytes(611s) == Ages{110, 100, 0});
    CHECK(book.aged_bytes(3'611s) == Ages{110, 110, 100});
    CHECK(book.free(0x1000) == 100);
    CHECK(book.aged_bytes(3'701s) == Ages{10, 10, 10});
}

TEST_CASE("a million random allocations and frees leave the sums of a plain map") {
    std::pmr::unsynchronized_pool_resource memory;
    AllocationBook book(&memory);
    std::unordered_map<std::uint64_t, std::uint64_t> model;
    std::uint64_t bytes = 0;
    std::mt19937_64 random(7);
    for (int i = 0; i < 1'000'000; i++) {
        const std::uint64_t address = (random() % 5'000) << 12;
        const auto at = std::chrono::seconds(i / 1'000);
        if (const auto live = model.find(address); live == model.end()) {
            const std::uint64_t size = random() % 10'000;
            book.allocate(address, size, at);
            model.emplace(address, size);
            bytes += size;
        } else {
            REQUIRE(book.free(address) == live->second);
            bytes -= live->second;
            model.erase(live);
        }
    }
    CHECK(book.bytes() == bytes);
    CHECK(book.count() == model.size());
}
