// The block `cuda:` of the configuration.

#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;
using namespace std::chrono_literals;
using probes::CudaConfig;

TEST_CASE("every setting of cuda is read") {
    const auto config = config::parse(R"(
cuda:
  enabled: false
  libraries: [libcuda.so.1, 'libfoo?.so*']
  attach: perf
  endings: exits
  max_calls_per_second: 0
  max_overhead: 50%
  allocation_ring_bytes: 4096
  call_ring_bytes: 256MiB
  drain_interval: 1s
  max_live_allocations: 1024
  max_registered_kernels: 1
  pin: true
  pin_path: "/run/bpf/gpusnoop"
  call_stacks: false
  max_call_stacks: 1048576
  python_stacks: false
  max_call_sites: 0
)",
                                      "c.yaml", probes::setting_blocks());
    REQUIRE(config);
    const CudaConfig expected = {.enabled = false,
                                 .libraries = {"libcuda.so.1", "libfoo?.so*"},
                                 .attach = ebpf::Attach::perf,
                                 .endings = ebpf::Endings::exits,
                                 .max_calls_per_second = 0,
                                 .max_overhead = 50,
                                 .allocation_ring_bytes = 4096,
                                 .call_ring_bytes = 256U << 20U,
                                 .max_live_allocations = 1024,
                                 .max_registered_kernels = 1,
                                 .pin = probes::Pin::always,
                                 .pin_path = "/run/bpf/gpusnoop",
                                 .call_stacks = false,
                                 .max_call_stacks = 1U << 20U,
                                 .python_stacks = false,
                                 .max_call_sites = 0,
                                 .drain_interval = 1s};
    CHECK(config->of<CudaConfig>() == expected);
}

TEST_CASE("a probe that only enters GPU processes records as little as it may") {
    config::Config config;
    CudaConfig whole;
    whole.pin = probes::Pin::always;
    whole.pin_path = "/run/bpf/gpusnoop";
    config.set(whole);
    CudaConfig least = whole;
    least.call_stacks = false;
    least.python_stacks = false;
    least.max_calls_per_second = 1;
    least.max_overhead = 0;
    least.pin = probes::Pin::never;
    least.pin_path = "";
    const auto of_few = probes::config_for_gpu_processes(config, false);
    CHECK(of_few.of<CudaConfig>() == least);
    CHECK_FALSE(of_few.of<probes::InFlightConfig>().enabled);
    least.max_calls_per_second = whole.max_calls_per_second;
    least.follow_failed = true;
    CHECK(probes::config_for_gpu_processes(config, true).of<CudaConfig>() == least);
}
