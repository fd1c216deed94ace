// The processes and call sites that hold the most, for the page at /.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/frame/overview.h"
#include "tests/unit/probes/cuda/fixture.h"
#include "tests/unit/probes/cuda/site_allocation.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("the overview has what each process holds, and where, as the metrics have it") {
    Fixture fixture;
    CHECK(fixture.aggregator->overview().process_count == 0);
    fixture.allocations(process());
    fixture.allocations(process("other", 43));
    fixture.allocations(process("idle", 44));
    fixture.allocations(from(1, 0x40, 40));
    fixture.allocations(from(2, 0x40, 30));
    fixture.allocations(from(3, 0x40, 25));
    fixture.allocations(from(4, 0x40, 5));
    fixture.allocations(of(43, bench_since, from(1, 0x40, 300)));
    fixture.apply_all();
    fixture.name_site(0, "a");
    fixture.name_site(1, "b");
    fixture.name_site(2, "b");  // another stack with the same label; the fourth is not named yet
    const MemoryOverview memory = fixture.aggregator->overview();
    CHECK(memory.process_count == 3);
    CHECK(memory.outstanding == Amount{400, 5});
    REQUIRE(memory.processes.size() == 3);
    CHECK(memory.processes[0].pid == 43);
    CHECK(memory.processes[0].names.comm == "other");
    CHECK(memory.processes[0].outstanding == Amount{300, 1});
    CHECK(memory.processes[1].pid == 42);
    CHECK(memory.processes[1].outstanding == Amount{100, 4});
    CHECK(memory.processes[2].pid == 44);
    CHECK(memory.processes[2].outstanding == Amount{});
    for (const ProcessOverview &one : memory.processes) {
        // The same as the label of the metric, also of a process that holds nothing.
        CHECK(fixture.sum("cuda_memory_outstanding_bytes", {std::to_string(one.pid)}) ==
              one.outstanding.bytes);
        REQUIRE(one.gpus.size() == 1);
        CHECK(fixture.sum("cuda_memory_outstanding_bytes",
                          {std::to_string(one.pid), one.gpus.front()}) == one.outstanding.bytes);
    }
    CHECK(memory.is_complete);
    CHECK(memory.site_count == 4);
    REQUIRE(memory.sites.size() == 4);
    CHECK(memory.sites[0].pid == 43);
    CHECK(memory.sites[0].site.empty());
    CHECK(memory.sites[0].outstanding == Amount{300, 1});
    CHECK(memory.sites[1].site == "b");
    CHECK(memory.sites[1].outstanding == Amount{55, 2});
    CHECK(memory.sites[2].site == "a");
    CHECK(memory.sites[2].outstanding == Amount{40, 1});
    CHECK(memory.sites[3].site.empty());
    CHECK(memory.sites[3].names.comm == "python");
    CHECK(memory.sites[3].outstanding == Amount{5, 1});
}

TEST_CASE("memory on several GPUs names each of them once") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 1, 2'000, MEMORY_device, 0));
    fixture.allocations(allocation(0x2000, 1, 2'000, MEMORY_managed, 0));
    fixture.allocations(allocation(0x3000, 1, 2'000, MEMORY_device, 1));
    fixture.apply_all();
    CHECK(fixture.aggregator->overview().processes.at(0).gpus ==
          std::vector<std::string>{"4", "5"});
}

TEST_CASE("the overview counts launches and errors of each process, and those for lack of memory") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(process("other", 43));
    fixture.calls(launch(0x10, 1));
    fixture.calls(launch(0x20, 2));
    fixture.allocations(failed("cudaMalloc", 2));
    fixture.calls(failed("cudaMemcpy", 1));
    fixture.apply_all();
    const MemoryOverview memory = fixture.aggregator->overview();
    REQUIRE(memory.processes.size() == 2);
    const CallCounts &calls = memory.processes[0].calls;
    CHECK(memory.processes[0].pid == 42);
    CHECK(memory.processes[0].since_ns == bench_since);
    CHECK(calls.launches == 2);
    CHECK(calls.errors == 2);
    CHECK(calls.out_of_memory == 1);
    CHECK(memory.processes[1].calls.errors == 0);
    const auto samples = fixture.aggregator->samples(1);
    REQUIRE(samples.size() == 1);
    CHECK(samples[0].key == ProcessKey{42, bench_since});
    CHECK(samples[0].launches == 2);
}

TEST_CASE("the overview has each GPU of the node, and who holds the most on it") {
    const std::vector<discovery::Gpu> node = {
        {.index = 4, .uuid = "", .pci_bus_id = "", .name = "NVIDIA H100"},
        {.index = 10, .uuid = "", .pci_bus_id = "", .name = "NVIDIA L4"}};
    Fixture fixture({.gpus = node});
    for (std::uint32_t pid = 1; pid <= max_overview_holders + 2; pid++) {
        fixture.allocations(process("holder", pid));
        fixture.allocations(of(pid, bench_since, allocation(0x1000, pid, 2'000)));
        fixture.allocations(
            of(pid, bench_since, allocation(0x2000, 1'000, 2'000, MEMORY_pinned_host)));
    }
    fixture.allocations(of(1, bench_since, allocation(0x3000, 7, 2'000, MEMORY_device, 1)));
    fixture.apply_all();
    const auto gpus = fixture.aggregator->overview().gpus;
    REQUIRE(gpus.size() == 3);
    CHECK(gpus[0].gpu == "4");
    CHECK(gpus[0].name == "NVIDIA H100");
    CHECK(gpus[0].bytes == 55);  // without pinned memory
    CHECK(gpus[0].holder_count == max_overview_holders + 2);
    REQUIRE(gpus[0].holders.size() == max_overview_holders);
    CHECK(gpus[0].holders.front().pid == max_overview_holders + 2);
    CHECK(gpus[0].holders.back().bytes == 3);
    CHECK(gpus[1].gpu == "5");
    CHECK(gpus[1].name.empty());
    CHECK(gpus[1].holders.at(0).names.comm == "holder");
    CHECK(gpus[2].gpu == "10");
    CHECK(gpus[2].holders.empty());
}

TEST_CASE("a process that has ended is in the overview no more") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(from(1, 0x40, 40));
    fixture.apply_all();
    fixture.allocations(exited(3'000));
    fixture.apply_all();
    const MemoryOverview memory = fixture.aggregator->overview();
    CHECK(memory.process_count == 0);
    CHECK(memory.processes.empty());
    CHECK(memory.sites.empty());
    CHECK(memory.outstanding == Amount{});
}

TEST_CASE(
    "of 10,000 processes the overview has the few that hold the most, and how many there are") {
    Fixture fixture;
    std::uint64_t sum = 0;
    for (std::uint32_t pid = 1; pid <= 10'000; pid++) {
        fixture.allocations(process("worker", pid));
        // The largest are in the middle, not where a walk begins or ends.
        const std::uint64_t bytes = pid <= 5'000 ? 10'000 + pid : 15'001 - pid;
        fixture.allocations(of(pid, bench_since, from(1, 0x40, bytes)));
        fixture.allocations(of(pid, bench_since, from(2, 0x40, 1)));
        sum += bytes + 1;
    }
    fixture.apply_all();
    for (std::size_t i = 0; i < fixture.asked_sites.size(); i++) {
        fixture.name_site(i, fixture.asked_sites[i].site.stack == 1 ? "big" : "small");
    }
    const MemoryOverview memory = fixture.aggregator->overview();
    CHECK(memory.process_count == 10'000);
    CHECK(memory.site_count == 20'000);
    CHECK(memory.outstanding == Amount{sum, 20'000});
    REQUIRE(memory.processes.size() == max_overview_processes);
    REQUIRE(memory.sites.size() == max_overview_sites);
    for (std::uint32_t i = 0; i < max_overview_processes; i++) {
        CHECK(memory.processes[i].pid == 5'000 - i);
        CHECK(memory.processes[i].outstanding == Amount{15'001 - i, 2});
    }
    for (std::uint32_t i = 0; i < max_overview_sites; i++) {
        CHECK(memory.sites[i].pid == 5'000 - i);
        CHECK(memory.sites[i].site == "big");
        CHECK(memory.sites[i].outstanding == Amount{15'000 - i, 1});
    }
}

TEST_CASE("a process whose calls may have been missed holds what is known, at least") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(process("other", 43));
    fixture.apply_all();
    CHECK(fixture.sum("process_info", {"42", "true"}) == 1);
    fixture.complete = false;
    fixture.aggregator->look_for_missed_calls();
    CHECK(fixture.sum("process_info", {"42", "false"}) == 1);
    CHECK(fixture.sum("process_info", {"true"}) == 0);
    const MemoryOverview memory = fixture.aggregator->overview();
    CHECK_FALSE(memory.is_complete);
    CHECK_FALSE(memory.processes.at(0).is_complete);
    CHECK_FALSE(fixture.aggregator->allocations().at(0).is_complete);
    fixture.complete = true;
    fixture.aggregator->look_for_missed_calls();
    CHECK(fixture.aggregator->overview().is_complete);
}
