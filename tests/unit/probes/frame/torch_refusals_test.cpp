// Requests for memory that PyTorch's allocators refused, on their way from one probe to another.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>

#include "exporter/probes/frame/torch_refusals.h"

using namespace gpusnoop::probes;

TEST_CASE("PyTorch's refusals that nobody takes are few, with a count") {
    TorchRefusals refusals;
    for (std::uint32_t i = 0; i < 3'000; i++) {
        refusals.add({.pid = i / 3, .at_ns = i, .device = 0, .bytes = i});
    }
    const auto all = refusals.take();
    REQUIRE(all.size() < 1'000);
    CHECK(all[1].pid == 1);
    CHECK(all[1].bytes == 3);
    CHECK(all[1].count == 3);
    CHECK(refusals.take().empty());
}
