// Memory on a device that the call names itself, or that its stream is on: whichever device the
// thread has chosen.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"

using namespace harness;

TEST_CASE("memory counts on the device that its allocation names, or as the host's", "[kernel]") {
    require_bpf();
    const GpuNode node(3);
    const Exporter exporter(node.config() + "cuda:\n  attach: session\n");
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const Process program(
        {standin("steps"), "name", "located", "use", "1",
         // The host's, its NUMA node 0, the current one; then two devices.
         "create", "2", "0", "create", "3", "0", "create", "4", "0", "create", "1", "2", "create",
         "1", "0", "create", "1", "2", "pool", "1", "2", "1000", "pool", "3", "0", "3000",
         "default_pool", "0", "500", "located_pool", "2", "200", "stream", "2", "30", "green", "2",
         "40", "allocate", "1", "70", "wait"},
        {{"STANDIN_DEVICES", "3"}});
    program.wait_for_output("waiting 1");
    constexpr double mib = 1024 * 1024;
    const auto bytes = [](const Page &page, const char *gpu, const char *kind) {
        return page.sum("gpusnoop_cuda_memory_outstanding_bytes",
                        {{"comm", "located"}, {"gpu", gpu}, {"memory_kind", kind}});
    };
    const Page page = exporter.wait_for("gpusnoop_cuda_memory_outstanding_bytes",
                                        {{"comm", "located"}, {"memory_kind", "device"}}, 70);
    CHECK(bytes(page, "1", "device") == 70);
    CHECK(bytes(page, "2", "vmm") == 4 * mib);
    CHECK(bytes(page, "0", "vmm") == 2 * mib);
    CHECK(bytes(page, "1", "pinned_host") == 6 * mib + 3000);
    CHECK(bytes(page, "2", "async") == 1230);
    CHECK(bytes(page, "0", "async") == 500);
    CHECK(bytes(page, "unknown", "async") == 40);
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_bytes", {{"comm", "located"}}) ==
          12 * mib + 4840);
    CHECK(page.sum("gpusnoop_cuda_memory_allocations_total", {{"comm", "located"}}) == 13);
    check_account_at_rest(exporter);
}
