// Copies, memsets, graphs and the sizes of launches.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("a copy is counted by its kind, its mode and its GPU") {
    Fixture fixture;
    fixture.allocations(process());
    for (std::uint32_t kind = 0; kind < COPY_DEFAULT; kind++) {
        auto one = copy(1, 2, std::uint64_t{1} << kind, kind, 2'000);
        fixture.calls(one);
        one.is_async = 1;
        one.head.device = 1;
        fixture.calls(one);
        fixture.calls(one);
    }
    for (std::uint32_t kind = 0; kind < COPY_DEFAULT; kind++) {
        const std::string name(copy_kind_names.at(kind));
        CHECK(fixture.sum("cuda_memcpy_total", {name, "sync", "4"}) == 1);
        CHECK(fixture.sum("cuda_memcpy_total", {name, "async", "5"}) == 2);
        CHECK(fixture.sum("cuda_memcpy_bytes_total", {name, "sync"}) == 1U << kind);
        CHECK(fixture.sum("cuda_memcpy_bytes_total", {name, "async"}) == 2U << kind);
        CHECK(fixture.sum("cuda_memcpy_seconds_total", {name, "async"}) == 2'000);
    }
    CHECK(fixture.sum("cuda_memcpy_total") == 12);
    CHECK(fixture.page("cuda_memcpy_duration_seconds").size() == 4);  // of sync ones only
}

TEST_CASE("only what takes time has a bandwidth") {
    Fixture fixture;
    fixture.allocations(process());
    const auto observed = [&](std::uint64_t bytes, std::uint64_t nanoseconds) {
        auto one = copy(1, 2, bytes, COPY_H2D, 2'000);
        one.head.duration_ns = nanoseconds;
        fixture.calls(one);
        for (const auto &family : fixture.aggregator->report(1s)) {
            if (family.description->name == "gpusnoop_cuda_memcpy_bandwidth_bytes_per_second") {
                REQUIRE(family.labels.size() == 1);
                return family.values.back();
            }
        }
        return ~std::uint64_t{0};
    };
    CHECK(observed(0, 1'000) == 0);
    CHECK(observed(1'000, 0) == 0);
    CHECK(observed(5'000'000, 1'000'000) == 5'000'000);                           // kB/s
    CHECK(observed(UINT64_MAX, 1) == 5'000'000 + std::uint64_t{10'000'000'000});  // at most
}

TEST_CASE("a Default copy is what the live allocations say, whatever order the rings are read in") {
    Fixture fixture;
    fixture.allocations(process());
    const auto memory = allocation(0x1000, 0x100, 2'000);
    // Read in the order free, copies, allocation; they happened in the order of their times.
    fixture.allocations(release(memory, 9'000));
    fixture.calls(copy(0x1010, 0x7fff, 1, COPY_DEFAULT, 3'000));
    fixture.calls(copy(0x7fff, 0x1010, 2, COPY_DEFAULT, 4'000));
    fixture.calls(copy(0x1000, 0x1010, 4, COPY_DEFAULT, 5'000));
    fixture.calls(copy(0x7fff, 0x8fff, 8, COPY_DEFAULT, 6'000));
    fixture.calls(copy(0x1010, 0x7fff, 16, COPY_DEFAULT, 9'500));
    fixture.allocations(memory);
    fixture.aggregator->apply_until(9'000ns);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2d"}) == 1);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"d2h"}) == 2);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"d2d"}) == 4);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2h"}) == 8);
    fixture.aggregator->apply_until(9'500ns);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2h"}) == 8 + 16);
}

TEST_CASE("in a Default copy, pinned memory is the host's and all other memory a device's") {
    Fixture fixture;
    fixture.allocations(process());
    for (const std::uint16_t kind :
         {MEMORY_device, MEMORY_async, MEMORY_managed, MEMORY_pinned_host}) {
        fixture.allocations(allocation(0x1000 * (kind + 1U), 0x100, 2'000, kind));
        fixture.calls(
            copy(0x1000 * (kind + 1U), 0x70000, std::uint64_t{1} << kind, COPY_DEFAULT, 3'000));
    }
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2d"}) ==
          (1U << MEMORY_device | 1U << MEMORY_async | 1U << MEMORY_managed));
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2h"}) == 1U << MEMORY_pinned_host);
}

TEST_CASE("in a Default copy, mapped addresses are a device's while they are mapped") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x5, 0x1000, 2'000, MEMORY_vmm));
    fixture.allocations(mapping(CUDA_RECORD_MAP, 0x10000, 0x1000, 3'000));
    fixture.allocations(mapping(CUDA_RECORD_UNMAP, 0x10000, 0x1000, 5'000));
    for (const std::uint64_t at : {2'500, 4'000, 6'000}) {
        fixture.calls(copy(0x10800, 0x70000, at, COPY_DEFAULT, at));
    }
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2d"}) == 4'000);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2h"}) == 2'500 + 6'000);
}

TEST_CASE("where allocations may have gone unseen, a Default copy is of unknown kind") {
    Fixture fixture;
    fixture.complete = false;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 0x1000, 2'000));
    fixture.calls(copy(0x1000, 0x9000, 8, COPY_DEFAULT, 3'000));
    fixture.calls(copy(0x1000, 0x1800, 4, COPY_DEFAULT, 3'000));
    fixture.aggregator->apply_until(1s);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"unknown"}) == 8);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"d2d"}) == 4);
}

TEST_CASE("a call of the driver can show that all calls are seen") {
    Fixture fixture;
    fixture.complete = false;
    fixture.complete_by_driver = true;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 0x1000, 2'000));
    fixture.calls(copy(0x1000, 0x9000, 8, COPY_DEFAULT, 3'000));
    fixture.aggregator->apply_until(4us);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"unknown"}) == 8);
    auto by_driver = copy(0x1000, 0x9000, 4, COPY_DEFAULT, 5'000);
    SECTION("made by itself") {
        by_driver.head.function = function_of("cuMemcpy");
    }
    SECTION("made by the runtime") {
        by_driver.head.function |= CUDA_CALLED_DRIVER;
    }
    fixture.calls(by_driver);
    fixture.aggregator->apply_until(1s);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"unknown"}) == 8);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2d"}) == 4);
}

TEST_CASE("a copy of a kind that CUDA has not is of unknown kind") {
    Fixture fixture;
    fixture.allocations(process());
    for (const std::uint32_t kind : {5U, 0x7fffffffU, ~0U}) {
        fixture.calls(copy(1, 2, 8, kind, 3'000));
    }
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memcpy_total", {"unknown"}) == 3);
    CHECK(fixture.page("cuda_memcpy_total").size() == 1);
}

TEST_CASE("memsets are counted by mode and GPU") {
    Fixture fixture;
    fixture.allocations(process());
    cuda_copy_record set{};
    set.head = head(CUDA_RECORD_SET, "cudaMemset", 2'000);
    set.bytes = 100;
    fixture.calls(set);
    fixture.calls(set);
    set.is_async = 1;
    set.head.device = 2;
    fixture.calls(set);
    CHECK(fixture.page("cuda_memset_total") == Page{{{"python", "", "", "", "sync", "4"}, 2},
                                                    {{"python", "", "", "", "async", "6"}, 1}});
    CHECK(fixture.page("cuda_memset_bytes_total") ==
          Page{{{"python", "", "", "", "sync", "4"}, 200},
               {{"python", "", "", "", "async", "6"}, 100}});
    CHECK(fixture.page("cuda_memcpy_total").empty());
    // Any other number is true, and no device.
    set.is_async = 1U << 24U;
    set.head.device = 0;
    fixture.calls(set);
    set.is_async = 0;
    set.head.device = 1;
    fixture.calls(set);
    CHECK(fixture.sum("cuda_memset_total", {"async", "4"}) == 1);
    CHECK(fixture.sum("cuda_memset_total", {"sync", "5"}) == 1);
}

TEST_CASE("grid and block are multiplied in 64 bits") {
    Fixture fixture;
    fixture.allocations(process());
    auto wide = launch(1, 0x7fffffff);
    wide.block[0] = 1024;
    wide.block[1] = 1;
    fixture.calls(wide);
    bool seen = false;
    for (const auto &family : fixture.aggregator->report(1s)) {
        if (family.description->name == "gpusnoop_cuda_kernel_launch_threads") {
            seen = true;
            REQUIRE(family.labels.size() == 1);
            CHECK(family.values.back() == 0x7fffffffULL * 1024);
        }
    }
    CHECK(seen);
}
