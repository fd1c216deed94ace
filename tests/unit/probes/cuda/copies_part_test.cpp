// Copies and memsets, without the other parts of the aggregator.
#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/cuda/copies/copies.h"
#include "tests/unit/probes/cuda/part_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

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
