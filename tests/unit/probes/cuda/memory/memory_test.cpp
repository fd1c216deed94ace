// Allocations, frees, and copies whose direction the live allocations decide.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("allocations and frees make the outstanding bytes") {
    Fixture fixture;
    fixture.allocations(process());
    const auto freed = allocation(0x1000, 100, 2'000);
    fixture.allocations(freed);
    fixture.allocations(allocation(0x2000, 10, 3'000));
    fixture.allocations(release(freed, 4'000));
    fixture.allocations(unknown_release(0x9000, 5'000));
    fixture.aggregator->apply_until(1s);
    CHECK(fixture.sum("cuda_memory_allocations_total", {"python", "device"}) == 2);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 110);
    CHECK(fixture.sum("cuda_memory_frees_total") == 1);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 100);
    CHECK(fixture.sum("cuda_memory_untracked_frees_total") == 1);
    CHECK(fixture.sum("cuda_memory_outstanding_bytes", {"42"}) == 10);
    CHECK(fixture.sum("cuda_memory_outstanding_allocations", {"42"}) == 1);
    CHECK(fixture.sum("cuda_memory_outstanding_older_than_bytes", {"1h"}) == 10);
}

TEST_CASE("a process without allocations has outstanding bytes, too: 0") {
    Fixture fixture;
    fixture.allocations(process());
    const Page none = {{{"python", "", "", "", "42", "4", "device"}, 0}};
    CHECK(fixture.page("cuda_memory_outstanding_bytes") == none);
    CHECK(fixture.page("cuda_memory_outstanding_allocations") == none);
}

TEST_CASE("each kind of memory, and each GPU, has its own counters") {
    Fixture fixture;
    fixture.allocations(process());
    std::uint64_t at = 2'000;
    for (std::uint16_t kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
        for (std::int32_t device = 0; device < 2; device++) {
            // Every number is a sum of its own powers of two.
            const std::uint64_t bytes = std::uint64_t{1} << (4U * kind + 2U * unsigned(device));
            const auto stays = allocation(at, bytes, at, kind, device);
            const auto goes = allocation(at + 1, 2 * bytes, at + 1, kind, device);
            fixture.allocations(stays);
            fixture.allocations(goes);
            fixture.allocations(release(goes, at + 2));
            at += 1'000;
        }
    }
    fixture.apply_all();
    for (std::uint16_t kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
        for (const unsigned device : {0U, 1U}) {
            const std::uint64_t bytes = std::uint64_t{1} << (4U * kind + 2U * device);
            const std::vector<std::string> labels = {std::string(memory_kind_names.at(kind)),
                                                     std::to_string(4 + device)};
            CAPTURE(labels);
            CHECK(fixture.sum("cuda_memory_allocations_total", labels) == 2);
            CHECK(fixture.sum("cuda_memory_allocated_bytes_total", labels) == 3 * bytes);
            CHECK(fixture.sum("cuda_memory_frees_total", labels) == 1);
            CHECK(fixture.sum("cuda_memory_freed_bytes_total", labels) == 2 * bytes);
            CHECK(fixture.sum("cuda_memory_outstanding_bytes", labels) == bytes);
            CHECK(fixture.sum("cuda_memory_outstanding_allocations", labels) == 1);
        }
    }
}

TEST_CASE("host memory with a handle is pinned host memory, and no other allocation's") {
    Fixture fixture;
    fixture.allocations(process());
    auto host = allocation(0x1000, 4, 2'000, MEMORY_vmm);
    host.kind = MEMORY_vmm_host;
    fixture.allocations(host);
    fixture.allocations(allocation(0x1000, 2, 2'001, MEMORY_pinned_host));  // an address
    auto map = mapping(CUDA_RECORD_MAP, 0x10000, 0x1000, 2'002);
    map.is_host = 1;
    fixture.allocations(map);
    fixture.calls(copy(0x10800, 0x70000, 16, COPY_DEFAULT, 2'003));
    fixture.apply_all();
    CHECK(fixture.page("cuda_memory_outstanding_bytes").size() == 1);
    CHECK(fixture.sum("cuda_memory_outstanding_bytes", {"pinned_host"}) == 6);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2h"}) == 16);
    auto gone = release(allocation(0x1000, 4, 2'000, MEMORY_vmm), 3'000);
    gone.kind = MEMORY_vmm_host;
    fixture.allocations(gone);
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_outstanding_bytes", {"pinned_host"}) == 2);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total", {"pinned_host"}) == 4);
    CHECK(fixture.page("cuda_memory_untracked_frees_total").empty());
}

TEST_CASE("a thread that chose no device is on the first one, where all it did was seen") {
    const auto gpus = [](bool complete, std::int32_t device) {
        Fixture fixture;
        fixture.complete = complete;
        fixture.allocations(process());
        fixture.allocations(allocation(0x1000, 8, 2'000, MEMORY_device, device));
        fixture.apply_all();
        CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 8);
        const auto page = fixture.page("cuda_memory_allocated_bytes_total");
        REQUIRE(page.size() == 1);
        return page.begin()->first.at(4);
    };
    CHECK(gpus(true, CUDA_DEVICE_UNCHOSEN) == "4");
    CHECK(gpus(true, 0) == "4");
    CHECK(gpus(true, 3) == "7");
    CHECK(gpus(true, CUDA_DEVICE_UNKNOWN) == "unknown");
    CHECK(gpus(false, CUDA_DEVICE_UNCHOSEN) == "unknown");
    CHECK(gpus(false, 0) == "4");
}

TEST_CASE("a free of what is not known is counted by the kind of its function") {
    Fixture fixture;
    fixture.allocations(process());
    for (std::uint16_t kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
        for (std::uint16_t times = 0; times <= kind; times++) {
            fixture.allocations(unknown_release(0x9000, 3'000, kind));
        }
    }
    fixture.apply_all();
    for (std::uint16_t kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
        CHECK(fixture.sum("cuda_memory_untracked_frees_total",
                          {std::string(memory_kind_names.at(kind)), "4"}) == kind + 1U);
    }
    CHECK(fixture.page("cuda_memory_frees_total").empty());
    CHECK(fixture.page("cuda_memory_allocations_total").empty());
}

TEST_CASE("an allocation of no bytes is counted and has no address to be freed at") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0, 0, 2'000));
    fixture.allocations(allocation(0, 0, 2'000));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_allocations_total") == 2);
    CHECK(fixture.sum("cuda_memory_outstanding_allocations") == 0);
}

TEST_CASE("an allocation at the address of another one took its place") {
    Fixture fixture;
    fixture.allocations(process());
    const auto first = allocation(0x1000, 100, 2'000);
    auto second = allocation(0x1000, 30, 3'000);
    second.flags = CUDA_ALLOCATION_REPLACES;
    fixture.allocations(first);
    fixture.allocations(second);
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 130);
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 30);
    CHECK(fixture.sum("cuda_memory_outstanding_allocations") == 1);
    fixture.allocations(release(second, 4'000));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 0);
    CHECK(fixture.sum("cuda_memory_frees_total") == 2);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 130);
}

TEST_CASE("what the kernel's table has no room for is freed by its address") {
    Fixture fixture;
    fixture.allocations(process());
    auto unlisted = allocation(0x1000, 100, 2'000, MEMORY_managed, 1);
    unlisted.flags = CUDA_ALLOCATION_UNTABLED;
    fixture.allocations(unlisted);
    fixture.allocations(allocation(0x2000, 10, 2'001));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 110);

    SECTION("as what it was, though the free knows nothing of it") {
        fixture.allocations(unknown_release(0x1000, 4'000));
        fixture.apply_all();
        CHECK(fixture.page("cuda_memory_freed_bytes_total") ==
              Page{{{"python", "", "", "", "5", "managed"}, 100}});
        CHECK(fixture.page("cuda_memory_untracked_frees_total").empty());
        fixture.allocations(unknown_release(0x1000, 5'000));
        fixture.apply_all();
        CHECK(fixture.sum("cuda_memory_untracked_frees_total") == 1);
    }
    SECTION("but not by a free of another address, or of a handle") {
        fixture.allocations(unknown_release(0x1001, 4'000));
        fixture.allocations(unknown_release(0x1000, 4'000, MEMORY_vmm));
        fixture.apply_all();
        CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 110);
        CHECK(fixture.sum("cuda_memory_untracked_frees_total") == 2);
    }
    SECTION("nor by a free that began before it was there") {
        auto earlier = unknown_release(0x1000, 4'000);
        earlier.head.duration_ns = 2'500;
        fixture.allocations(earlier);
        fixture.apply_all();
        CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 110);
        CHECK(fixture.sum("cuda_memory_untracked_frees_total") == 1);
    }
    SECTION("and what the table has is left to the table") {
        fixture.allocations(unknown_release(0x2000, 4'000));
        fixture.apply_all();
        CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 110);
        CHECK(fixture.sum("cuda_memory_untracked_frees_total") == 1);
    }
    SECTION("also what the table had until a free failed") {
        auto back = allocation(0x2000, 10, 2'001);
        back.flags = CUDA_ALLOCATION_KNOWN | CUDA_ALLOCATION_UNTABLED;
        back.head.ended_ns = 3'000;
        fixture.allocations(back);
        fixture.apply_all();
        CHECK(fixture.sum("cuda_memory_allocations_total") == 2);
        fixture.allocations(unknown_release(0x2000, 4'000));
        fixture.apply_all();
        CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 100);
        CHECK(fixture.sum("cuda_memory_frees_total") == 1);
    }
}

TEST_CASE(
    "what was missing in the table while an older one was forgotten there is freed all the same") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 100, 2'000));
    const auto after = allocation(0x1000, 30, 4'000);
    const bool is_known = GENERATE(true, false);
    if (is_known) {  // else its record comes after that of the reset
        fixture.allocations(after);
        fixture.apply_all();
    }
    fixture.briefly_missing = {{{0x1000, bench_since, bench_pid, CUDA_LIVE_MEMORY}, 4'000}};
    fixture.allocations(reset(0, 3'000));
    fixture.apply_all();
    if (!is_known) {
        fixture.allocations(after);
        fixture.apply_all();
    }
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 30);

    SECTION("by a free that did not find it") {
        fixture.forgotten.clear();
        fixture.allocations(unknown_release(0x1000, 5'000));
        fixture.apply_all();
        CHECK(fixture.page("cuda_memory_untracked_frees_total").empty());
        // The table has it again by now.
        REQUIRE(fixture.forgotten.size() == 1);
        CHECK(fixture.forgotten[0].born_ns == 4'000);
    }
    SECTION("by one whose record was lost") {
        LiveTable table{.since = 1s, .entries = {}, .processes = {}};
        table.processes[bench_pid].since_ns = bench_since;
        fixture.aggregator->reconcile(table);
    }
    SECTION("and by one that did") {
        fixture.allocations(release(after, 5'000));
        fixture.apply_all();
    }
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 0);
    CHECK(fixture.sum("cuda_memory_frees_total") == 2);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 130);
}

TEST_CASE("an address that is allocated again while its free returns keeps the new allocation") {
    Fixture fixture;
    fixture.allocations(process());
    const auto first = allocation(0x1000, 100, 2'000);
    fixture.allocations(first);
    fixture.allocations(allocation(0x1000, 30, 3'000));
    fixture.allocations(release(first, 4'000));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 30);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 100);
}

TEST_CASE("a free whose allocation's record was lost is one of each") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(release(allocation(0x1000, 100, 2'000, MEMORY_async, 1), 4'000));
    fixture.apply_all();
    for (const auto *family :
         {"cuda_memory_allocated_bytes_total", "cuda_memory_freed_bytes_total"}) {
        CHECK(fixture.page(family) == Page{{{"python", "", "", "", "5", "async"}, 100}});
    }
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 0);
}

TEST_CASE("a reset of a device frees what its primary context has, and nothing later") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 1, 2'000));
    fixture.allocations(allocation(0x2000, 2, 2'001, MEMORY_pinned_host, CUDA_DEVICE_UNCHOSEN));
    fixture.allocations(allocation(0x3000, 4, 2'002, MEMORY_device, 1));
    auto in_context = allocation(0x4000, 8, 2'003);
    in_context.context = 0xc;
    fixture.allocations(in_context);
    fixture.allocations(allocation(0x5000, 16, 2'004, MEMORY_vmm));
    fixture.allocations(reset(CUDA_DEVICE_UNCHOSEN, 3'000));
    fixture.allocations(allocation(0x1000, 32, 3'001));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 4 + 8 + 16 + 32);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 1 + 2);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total", {"pinned_host"}) == 2);
    // The kernel's table keeps them until it is told.
    REQUIRE(fixture.forgotten.size() == 2);
    for (const auto &[key, born_ns] : fixture.forgotten) {
        CHECK(key.tgid == bench_pid);
        CHECK(key.since_ns == bench_since);
        CHECK(key.space == CUDA_LIVE_MEMORY);
        CHECK((key.address == 0x1000 || key.address == 0x2000));
        CHECK(born_ns == (key.address == 0x1000 ? 2'000U : 2'001U));
    }
}

TEST_CASE("a context that is destroyed takes what was allocated in it, and nothing else") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(process("other", 43));
    for (const std::uint64_t context : {0, 0xc, 0xd}) {
        auto one = allocation(0x1000 + context, 1 + context, 2'000, MEMORY_device, 1);
        one.context = context;
        fixture.allocations(one);
        fixture.allocations(of(43, bench_since, one));
    }
    fixture.allocations(reset(0, 3'000, 0xc));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_outstanding_bytes", {"python"}) == 1 + 1 + 0xd);
    CHECK(fixture.sum("cuda_memory_outstanding_allocations", {"other"}) == 3);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 1 + 0xc);
}

TEST_CASE("the end of a process takes what it had out of the kernel's table") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 1, 2'000));
    fixture.allocations(allocation(0x1000, 1, 2'001, MEMORY_vmm));
    fixture.allocations(exited(3'000));
    fixture.apply_all();
    REQUIRE(fixture.forgotten.size() == 2);
    CHECK(fixture.forgotten[0].key.space == CUDA_LIVE_MEMORY);
    CHECK(fixture.forgotten[1].key.space == CUDA_LIVE_HANDLES);
    CHECK(fixture.aggregator->wants_reconciling());  // its mappings are no live allocations
}
