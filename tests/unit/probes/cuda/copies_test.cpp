// Copies and memsets, without the other parts of the aggregator.
#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/cuda/copies/copies.h"
#include "tests/unit/probes/cuda/fixture.h"
#include "tests/unit/probes/cuda/part_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

struct CopiesFixture : PartFixture {
    CudaCopies copies{families};

    CopiesFixture() : PartFixture(CudaCopies::started) {}
    [[nodiscard]] std::uint64_t in_flight(const std::string &stream) const {
        series::FamilySet gauges([](std::string_view) { return 100U; }, true);
        CudaCopies::add_gauges(gauges, processes, true);
        return sum_of(page_of(gauges.snapshots(), "cuda_memcpy_async_in_flight_estimated_bytes"),
                      {stream});
    }
};

}  // namespace

TEST_CASE("the part of copies counts a copy whose direction the caller said") {
    CopiesFixture fixture;
    CHECK(fixture.copies.on_copy(fixture.process(), copy(1, 2, 64, COPY_D2H, 2'000)));
    CHECK(fixture.copies.on_copy(fixture.process(43), copy(1, 2, 8, COPY_D2H, 2'000)));
    CHECK(fixture.page("cuda_memcpy_bytes_total") ==
          Page{{{"python", "", "", "", "d2h", "sync", "0"}, 72}});
    CHECK(fixture.sum("cuda_memcpy_total") == 2);
}

TEST_CASE("the part of copies leaves a Default copy to the caller, who knows the allocations") {
    CopiesFixture fixture;
    const auto one = copy(1, 2, 64, COPY_DEFAULT, 2'000);
    Process &process = fixture.process();
    CHECK_FALSE(fixture.copies.on_copy(process, one));
    CHECK(fixture.page("cuda_memcpy_total").empty());
    fixture.copies.apply_default(process, one, true, false);
    fixture.copies.apply_default(process, one, false, true);
    fixture.copies.apply_default(process, one, true, true);
    fixture.copies.apply_default(process, one, false, false);
    for (const char *kind : {"h2d", "d2h", "d2d", "h2h"}) {
        CHECK(fixture.sum("cuda_memcpy_total", {kind}) == 1);
    }
    SECTION("who may not know all of them") {
        process.is_complete = false;
        fixture.copies.apply_default(process, one, true, false);
        CHECK(fixture.sum("cuda_memcpy_total", {"unknown"}) == 1);
        fixture.copies.apply_default(process, one, true, true);
        CHECK(fixture.sum("cuda_memcpy_total", {"d2d"}) == 2);
    }
    SECTION("and a kind that there is not is unknown") {
        const auto odd = copy(1, 2, 64, 77, 2'000);
        CHECK_FALSE(fixture.copies.on_copy(process, odd));
        fixture.copies.apply_default(process, odd, true, true);
        CHECK(fixture.sum("cuda_memcpy_total", {"unknown"}) == 1);
    }
}

TEST_CASE("the part of copies knows what asynchronous copies have under way, by process") {
    CopiesFixture fixture;
    Process &process = fixture.process();
    CHECK(fixture.copies.on_copy(process, async_copy(0x7000, 100, 2'000)));
    CHECK_FALSE(fixture.copies.on_copy(process, async_copy(0, 7, 2'000, COPY_DEFAULT)));
    CHECK(fixture.copies.on_copy(fixture.process(43), async_copy(0x7000, 5, 2'000)));
    CHECK(fixture.in_flight("1") == 105);
    CHECK(fixture.in_flight("default") == 7);
    fixture.copies.on_wait(process, wait(0x7000, 9'000));
    CHECK(fixture.in_flight("1") == 5);
    fixture.copies.on_wait(process, wait(CUDA_ALL_STREAMS, 9'000));
    CHECK(fixture.in_flight("default") == 0);
    fixture.process(43).ended = std::chrono::seconds(1);
    CHECK(fixture.in_flight("1") == 0);
}

TEST_CASE("the part of copies counts memsets") {
    CopiesFixture fixture;
    auto one = copy(1, 0, 64, 0, 2'000);
    fixture.copies.on_set(fixture.process(), one);
    one.is_async = 1;
    one.head.device = 3;
    fixture.copies.on_set(fixture.process(), one);
    CHECK(fixture.page("cuda_memset_bytes_total") ==
          Page{{{"python", "", "", "", "sync", "0"}, 64},
               {{"python", "", "", "", "async", "3"}, 64}});
    CHECK(fixture.page("cuda_memcpy_total").empty());
}

// The estimate of the bytes that async copies have under way.

namespace {

std::map<unsigned, std::uint64_t> in_flight(const AsyncCopies &copies) {
    std::map<unsigned, std::uint64_t> bytes;
    for (const auto &stream : copies.streams()) {
        CHECK(bytes.emplace(stream.number, stream.bytes).second);
    }
    return bytes;
}

using InFlight = std::map<unsigned, std::uint64_t>;

constexpr std::uint64_t stream_a = 0x7f0000001000;
constexpr std::uint64_t stream_b = 0x7f0000002000;

}  // namespace

TEST_CASE("copies are under way until their stream is waited for") {
    AsyncCopies copies;
    CHECK(in_flight(copies).empty());
    copies.submitted(stream_a, 100, 10);
    copies.submitted(stream_a, 10, 20);
    copies.submitted(stream_b, 1, 30);
    CHECK(in_flight(copies) == InFlight{{0, 0}, {1, 110}, {2, 1}});
    copies.waited(stream_a, 9);  // began before the first of them
    CHECK(in_flight(copies) == InFlight{{0, 0}, {1, 110}, {2, 1}});
    copies.waited(stream_a, 15);
    CHECK(in_flight(copies) == InFlight{{0, 0}, {1, 10}, {2, 1}});
    copies.waited_for_all(25);
    CHECK(in_flight(copies) == InFlight{{0, 0}, {1, 0}, {2, 1}});
    copies.waited(stream_b, 30);
    CHECK(in_flight(copies) == InFlight{{0, 0}, {1, 0}, {2, 0}});
}

TEST_CASE("the default stream has several names") {
    AsyncCopies copies;
    for (const std::uint64_t name : {0, 1, 2}) {
        copies.submitted(name, 10, 10);
    }
    CHECK(in_flight(copies) == InFlight{{0, 30}});
    copies.waited(2, 20);
    CHECK(in_flight(copies) == InFlight{{0, 0}});
}

TEST_CASE("a stream that nothing is copied on takes no place") {
    AsyncCopies copies;
    copies.waited(stream_b, 5);
    copies.submitted(0, 1, 10);
    for (std::uint64_t i = 0; i < 1'000; i++) {
        copies.waited(stream_b + i, 20 + i);
    }
    copies.submitted(stream_a, 7, 30);
    CHECK(in_flight(copies) == InFlight{{0, 1}, {1, 7}});
}

TEST_CASE("streams past the limit are with the default stream, with none of their bytes lost") {
    AsyncCopies copies;
    for (std::uint64_t i = 0; i < 1'000; i++) {
        copies.submitted(stream_a + i, 1, i);
    }
    const auto bytes = in_flight(copies);
    CHECK(bytes.size() == 64);
    CHECK(bytes.at(0) == 1'000 - 63);
    CHECK(bytes.at(63) == 1);
    copies.waited(stream_a + 999, 2'000);
    CHECK(in_flight(copies).at(0) == 0);
    CHECK(in_flight(copies).at(63) == 1);
}

TEST_CASE("copies past the limit are merged, with none of their bytes lost") {
    AsyncCopies copies;
    for (std::uint64_t i = 1; i <= 100'000; i++) {
        copies.submitted(stream_a, 1, i);
    }
    CHECK(in_flight(copies).at(1) == 100'000);
    // Those that can be told apart still end one by one; the others with the last of them.
    copies.waited(stream_a, 99'990);
    CHECK(in_flight(copies).at(1) == 10);
    copies.waited(stream_a, 100'000);
    CHECK(in_flight(copies).at(1) == 0);
}

TEST_CASE("the page shows what each stream has under way") {
    Fixture fixture({.stream_label = true});
    fixture.allocations(process());
    const auto page = [&] { return fixture.page("cuda_memcpy_async_in_flight_estimated_bytes"); };
    CHECK(page().empty());
    fixture.calls(copy(1, 2, 1'000, COPY_H2D, 10'000));  // sync: it is over
    CHECK(page().empty());
    fixture.calls(async_copy(stream_a, 100, 10'000));
    fixture.calls(async_copy(0, 10, 20'000));
    CHECK(page() == Page{{{"python", "", "", "", "42", "default"}, 10},
                         {{"python", "", "", "", "42", "1"}, 100}});
    fixture.calls(wait(stream_a, 15'000));
    CHECK(fixture.sum("cuda_memcpy_async_in_flight_estimated_bytes", {"1"}) == 0);
    CHECK(fixture.sum("cuda_memcpy_async_in_flight_estimated_bytes", {"default"}) == 10);
    fixture.calls(wait(CUDA_ALL_STREAMS, 20'500));  // began at 19'500
    CHECK(fixture.sum("cuda_memcpy_async_in_flight_estimated_bytes", {"default"}) == 10);
    fixture.calls(wait(CUDA_ALL_STREAMS, 21'000));
    CHECK(fixture.sum("cuda_memcpy_async_in_flight_estimated_bytes") == 0);
}

TEST_CASE(
    "a Default copy ends with the wait that follows it, though its direction is known later") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.calls(async_copy(stream_a, 100, 10'000, COPY_DEFAULT));
    CHECK(fixture.sum("cuda_memcpy_async_in_flight_estimated_bytes") == 100);
    fixture.calls(wait(stream_a, 15'000));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"async"}) == 100);
    CHECK(fixture.sum("cuda_memcpy_async_in_flight_estimated_bytes") == 0);
}

TEST_CASE("each process waits for its own streams") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(process("other", 43));
    fixture.calls(async_copy(stream_a, 100, 10'000));
    fixture.calls(of(43, bench_since, async_copy(stream_a, 5, 10'000)));
    fixture.calls(of(43, bench_since, wait(CUDA_ALL_STREAMS, 20'000)));
    CHECK(fixture.sum("cuda_memcpy_async_in_flight_estimated_bytes", {"python"}) == 100);
    CHECK(fixture.sum("cuda_memcpy_async_in_flight_estimated_bytes", {"other"}) == 0);
}

TEST_CASE("without the label stream, the copies of all streams are one row") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.calls(async_copy(stream_a, 100, 10'000));
    fixture.calls(async_copy(0, 10, 20'000));
    CHECK(fixture.page("cuda_memcpy_async_in_flight_estimated_bytes") ==
          Page{{{"python", "", "", "", "42"}, 110}});
}
