// The block `torch:` of the configuration.
#include "exporter/probes/torch/settings.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;
using probes::TorchConfig;

TEST_CASE("every setting of torch is read") {
    const auto config = config::parse(R"(
torch:
  enabled: true
  sampling: true
  libraries: ["libmy10.so*"]
  attach: perf
  ring_bytes: 256KiB
  max_live_allocations: 1024
  call_stacks: false
  max_call_stacks: 16
  max_call_sites: 0
)",
                                      "c", probes::setting_blocks());
    REQUIRE(config);
    const TorchConfig expected = {.enabled = true,
                                  .sampling = true,
                                  .libraries = {"libmy10.so*"},
                                  .attach = ebpf::Attach::perf,
                                  .ring_bytes = 256U << 10U,
                                  .max_live_allocations = 1024,
                                  .call_stacks = false,
                                  .max_call_stacks = 16,
                                  .max_call_sites = 0};
    CHECK(config->of<TorchConfig>() == expected);
}

TEST_CASE("torch is off unless it is asked for") {
    const auto config = config::parse("", "c", probes::setting_blocks());
    REQUIRE(config);
    CHECK(config->of<TorchConfig>() == TorchConfig{});
    CHECK_FALSE(config->of<TorchConfig>().enabled);
}

TEST_CASE("wrong settings of torch are refused") {
    for (const std::string text :
         {"torch: {ring_bytes: 1KiB}", "torch: {libraries: [/lib/libc10.so]}",
          "torch: {attach: never}", "torch: {max_live_allocations: 1}",
          "torch: {max_call_sites: 1001}", "torch: {max_call_stacks: 15}", "torch: {on: true}",
          "torch: {sampling: 4MiB}"}) {
        INFO(text);
        CHECK_FALSE(config::parse(text, "c", probes::setting_blocks()));
    }
}
