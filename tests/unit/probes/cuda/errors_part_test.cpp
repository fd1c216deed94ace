// Errors, without the other parts of the aggregator.
#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/cuda/errors.h"
#include "tests/unit/probes/cuda/part_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

struct ErrorsFixture : PartFixture {
    CudaErrors errors{families};

    ErrorsFixture() : PartFixture(CudaErrors::started) {}
};

constexpr const char *family = "cuda_api_errors_total";

}  // namespace

TEST_CASE("the part of errors counts them by function and name, of each process") {
    ErrorsFixture fixture;
    fixture.errors.count(fixture.process(), failed("cudaMalloc", 2).head);
    fixture.errors.count(fixture.process(43), failed("cudaMalloc", 2).head);
    fixture.errors.count(fixture.process(), failed("cuMemAlloc_v2", 2).head);
    fixture.errors.count(fixture.process(), failed("cudaMemcpy", 98'765).head);
    CHECK(fixture.sum(family, {"cudaMalloc", "cudaErrorMemoryAllocation"}) == 2);
    CHECK(fixture.sum(family, {"CUDA_ERROR_OUT_OF_MEMORY"}) == 1);
    CHECK(fixture.sum(family, {"cudaMemcpy", "code_98765"}) == 1);
    CHECK(fixture.sum(family) == 4);
}

TEST_CASE("a call by the static runtime has the errors of the same function") {
    ErrorsFixture fixture;
    auto head = failed("cudaMalloc", 2).head;
    head.function |= CUDA_STATIC_RUNTIME;
    CHECK(CudaErrors::shows(head));
    fixture.errors.count(fixture.process(), head);
    CHECK(fixture.sum(family, {"cudaMalloc"}) == 1);
}

TEST_CASE("errors of helpers are not shown") {
    std::size_t hidden = 0;
    for (const CudaFunction &function : cuda_functions()) {
        hidden += function.shows_errors ? 0 : 1;
        CHECK(CudaErrors::shows(failed(function.symbol, 1).head) == function.shows_errors);
    }
    CHECK(hidden > 0);
    auto unknown = failed("cudaMalloc", 1).head;
    unknown.function = 5'000;
    CHECK(CudaErrors::shows(unknown));
}
