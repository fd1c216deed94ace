// What is allocated is known whatever happens: lost records, a table that is full.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

double cuda_recovery_lost(const Page &page, const std::string &reason) {
    return page.sum("gpusnoop_probe_events_lost_total", {{"reason", reason}});
}

// A program that allocates so many times, makes no other calls, and stays.
Process allocate(const fs::path &truth, const std::string &name, int times) {
    Process process(
        {standin("steps"), "name", name, "allocate", std::to_string(times), "100", "wait"},
        {{"STANDIN_TRUTH_DIR", truth.string()}});
    process.wait_for_output("waiting 1");
    return process;
}

}  // namespace

TEST_CASE("live allocations are right again after their records were lost", "[kernel]") {
    require_bpf();
    const Exporter exporter("cuda:\n  allocation_ring_bytes: 4KiB\n  drain_interval: 50ms\n");
    const Process holder = hold(exporter);
    const TemporaryDirectory directory;
    const Process loud = start(directory.path(), {"--everything", "--api", "both", "--threads", "4",
                                                  "--iterations", "300", "--name", "loud"});
    loud.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "loud");
    const auto memory = truth.all_memory();
    eventually("the live allocations to be right again", [&] {
        return outstanding(exporter.scrape(), truth.pid) == number(memory.outstanding_bytes);
    });
    const Page page = exporter.scrape();
    CHECK(cuda_recovery_lost(page, "ring_full") > 0);
    check_outstanding(page, truth);
    CHECK(page.sum("gpusnoop_cuda_memory_allocated_bytes_total", {{"comm", "loud"}}) -
              page.sum("gpusnoop_cuda_memory_freed_bytes_total", {{"comm", "loud"}}) ==
          number(memory.outstanding_bytes));
}

TEST_CASE("what the table of live allocations has no room for is counted all the same",
          "[kernel]") {
    require_bpf();
    const Exporter exporter("series: {budget: 100000}\ncuda:\n  max_live_allocations: 1024\n");
    const Process holder = hold(exporter);
    const TemporaryDirectory directory;
    const Process first = start(
        directory.path(), {"--iterations", "1100", "--leak", "100", "--name", "fills_the_table"});
    first.wait_for_output("holding");
    const Process many = start(directory.path(), {"--api", "both", "--threads", "4", "--iterations",
                                                  "2000", "--leak", "100", "--name", "many"});
    many.wait_for_output("holding");
    const auto truth = truth_of(directory.path(), "many");
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "many"}},
                                        number(truth.all_launches()));
    check_counters(page, truth, "many");
    check_outstanding(page, truth);
    check_account_at_rest(exporter);
}

TEST_CASE(
    "a process's allocations without room in the table are bounded, and what is past is counted",
    "[kernel]") {
    require_bpf();
    constexpr double room = 1024 + 65'536;
    // Of the runtime alone, as the room of a process is the same in every configuration.
    const Exporter exporter(
        "cuda:\n  max_live_allocations: 1024\n  libraries: [\"libcudart.so*\"]\n");
    const Process holder = hold(exporter, standin("12/libcudart.so.12"));
    const TemporaryDirectory directory;
    const Process many = allocate(directory.path(), "many", static_cast<int>(room) + 500);
    const auto memory = truth_of(directory.path(), "many").of(truth::MemoryKind::device);
    const Labels of = {{"comm", "many"}};
    eventually("every allocation to be counted or lost", [&] {
        const Page page = exporter.scrape();
        return page.sum("gpusnoop_cuda_memory_allocations_total", of) +
                   cuda_recovery_lost(page, "allocation_table") ==
               number(memory.allocations + memory.empty_allocations);
    });
    const Page page = exporter.scrape();
    CHECK(cuda_recovery_lost(page, "allocation_table") > 0);
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_allocations", of) <= room);
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_allocations", of) > 1024);
}
