// The estimate of the bytes that async copies have under way.
#include "exporter/probes/cuda/copies/copies.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

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
