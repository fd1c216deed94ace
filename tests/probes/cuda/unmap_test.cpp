// Memory that is mapped in pieces and unmapped as a whole.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

TEST_CASE("one call unmaps any number of mappings, with gaps between them", "[kernel]") {
    require_bpf();
    // Not by perf: the kernel takes minutes to detach from all of the driver.
    const std::string mode = GENERATE("session", "multi");
    CAPTURE(mode);
    const Exporter exporter("cuda:\n  attach: " + mode + "\n");
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    const TemporaryDirectory directory;
    Process program(
        {standin("steps"), "name", "stripes",
         // More than the programs in the kernel end by themselves.
         "map", "0", "1000", "wait", "unmap", "0", "1000", "wait",
         // With gaps, and with mappings beside the range.
         "map", "10", "300", "unmap", "20", "1", "unmap", "100", "50", "wait", "unmap", "15", "200",
         "wait",
         // Mapped again at once, at some of the places.
         "unmap", "5", "400", "map", "0", "100", "wait",
         // And ended right behind it.
         "map", "200", "200", "unmap", "150", "150"},
        {{"STANDIN_TRUTH_DIR", directory.path().string()}, {"STANDIN_MEMORY_LIMIT", "8589934592"}});
    const Labels of = {{"comm", "stripes"}, {"memory_kind", "vmm"}};
    const auto truth = [&] {
        return truth::sum(truth::read_truth(directory.path())).of(truth::MemoryKind::vmm);
    };
    for (int step = 1; step <= 5; step++) {
        CAPTURE(step);
        program.wait_for_output("waiting " + std::to_string(step));
        const auto memory = truth();
        eventually("the page to show what is allocated", [&] {
            const Page page = exporter.scrape();
            const double bytes = page.sum("gpusnoop_cuda_memory_outstanding_bytes", of);
            UNSCOPED_INFO(bytes << " of " << memory.outstanding_bytes);
            return bytes == static_cast<double>(memory.outstanding_bytes) &&
                   page.sum("gpusnoop_cuda_memory_frees_total", of) ==
                       static_cast<double>(memory.frees);
        });
        program.signal(SIGUSR1);
    }
    CHECK(program.wait() == 0);
    eventually("what was not freed at the end to be counted", [&] {
        return exporter.scrape().sum("gpusnoop_cuda_memory_unfreed_at_exit_bytes_total",
                                     {{"comm", "stripes"}}) ==
               static_cast<double>(truth().outstanding_bytes);
    });
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_cuda_memory_frees_total", of) == static_cast<double>(truth().frees));
    check_account_at_rest(exporter);
}
