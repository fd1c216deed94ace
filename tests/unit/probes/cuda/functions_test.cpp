// The table of functions, and what records say by a function's number: errors and linkage.
#include "exporter/probes/cuda/attach/functions.h"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>
#include <string_view>

#include "bpf/cuda/functions.h"
#include "bpf/lib/cost.h"
#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

// The value of the label `linkage` of the only process.
std::string linkage(const Fixture &fixture) {
    const auto page = fixture.page("process_info");
    REQUIRE(page.size() == 1);
    CHECK(page.begin()->second == 1);
    return page.begin()->first.rbegin()[2];  // the labels after it are `complete`, `profiler`
}

// The macros of the BPF programs, which are C.
constexpr std::uint64_t function_in(std::uint64_t cookie) {
    return cookie & 0xffff;
}
constexpr std::uint64_t operation_in(std::uint64_t cookie) {
    return (cookie >> 16) & 0x3f;
}
constexpr std::uint64_t variant_in(std::uint64_t cookie) {
    return (cookie >> 24) & 0xff;
}

cuda_launch_record launched_by(std::string_view symbol, bool is_static = false) {
    auto record = launch(1, 1);
    record.head.function = function_of(symbol);
    if (is_static) {
        record.head.function |= CUDA_STATIC_RUNTIME;
    }
    return record;
}

}  // namespace

TEST_CASE("CUPTI is known by its name, also with the hash of a Python package") {
    CHECK(is_cupti("libcupti.so.12"));
    CHECK(is_cupti("libcupti-1a2b3c4d.so.13"));
    CHECK_FALSE(is_cupti("libcuptitools.so"));
}

TEST_CASE("the table of functions holds what the BPF programs expect of it") {
    const auto functions = cuda_functions();
    CHECK(functions.size() > 150);
    std::set<std::string_view> symbols;
    for (std::size_t number = 0; number < functions.size(); number++) {
        const CudaFunction &one = functions[number];
        CAPTURE(one.symbol);
        CHECK(symbols.insert(one.symbol).second);
        CHECK(one.is_driver() == (one.symbol.starts_with("cu") && !one.symbol.starts_with("cuda") &&
                                  !one.symbol.starts_with("cupti")));
        CHECK((one.api == CudaApi::cupti) == one.symbol.starts_with("cupti"));
        CHECK(function_in(one.cookie) == number);
        CHECK(operation_in(one.cookie) < CUDA_OPERATION_COUNT);
        CHECK(number != CUDA_NO_FUNCTION);
        CHECK((number & CUDA_FUNCTION_FLAGS) == 0);
        // A variant of a function is shown under the function's own name.
        CHECK(one.name.find("_pt") == std::string_view::npos);
        CHECK(one.name.find("_v") == std::string_view::npos);
        const bool is_plain = one.symbol == one.name;
        const bool is_variant = one.symbol.starts_with(one.name);
        const bool is_internal =
            one.symbol.starts_with("__") && one.symbol.substr(2).starts_with(one.name);
        CHECK((is_plain || is_variant || is_internal));
    }
}

TEST_CASE("what an allocating or freeing function is about is in its cookie") {
    const auto cookie = [](std::string_view symbol) {
        return cuda_functions()[function_of(symbol)].cookie;
    };
    const std::map<std::string_view, cuda_memory_kind> kinds = {
        {"cudaMalloc", MEMORY_device},          {"cudaMallocAsync_ptsz", MEMORY_async},
        {"cudaMallocManaged", MEMORY_managed},  {"cudaHostAlloc", MEMORY_pinned_host},
        {"cudaMallocHost", MEMORY_pinned_host}, {"cuMemAllocManaged", MEMORY_managed},
        {"cuMemHostAlloc", MEMORY_pinned_host}, {"cuMemAllocAsync", MEMORY_async}};
    for (const auto &[symbol, kind] : kinds) {
        CAPTURE(symbol);
        CHECK(operation_in(cookie(symbol)) == CUDA_ALLOCATE);
        CHECK(variant_in(cookie(symbol)) == kind);
        CHECK(CUDA_COOKIE_SLOT(cookie(symbol), CUDA_ADDRESS) == 1);
        CHECK(CUDA_COOKIE_SLOT(cookie(symbol), CUDA_BYTES) == 2);
    }
    CHECK(operation_in(cookie("cuMemCreate")) == CUDA_ALLOCATE_AT);
    CHECK(variant_in(cookie("cuMemCreate")) == MEMORY_vmm);
    CHECK(operation_in(cookie("cuMemAllocFromPoolAsync")) == CUDA_ALLOCATE_FROM_POOL);
    CHECK(variant_in(cookie("cuMemAllocFromPoolAsync")) == MEMORY_async);
    CHECK(operation_in(cookie("cuMemRelease")) == CUDA_FREE);
    CHECK(variant_in(cookie("cuMemRelease")) == MEMORY_vmm);
    CHECK(CUDA_COOKIE_SLOT(cookie("cudaMemcpyAsync"), CUDA_STREAM) == 5);
    CHECK((cookie("cudaMemcpyAsync") & ASYNC) != 0);
    CHECK((cookie("cudaMemcpy") & ASYNC) == 0);
}

TEST_CASE("a registration has the address itself, and is given back as memory is") {
    const auto cookie = [](std::string_view symbol) {
        return cuda_functions()[function_of(symbol)].cookie;
    };
    for (const std::string_view symbol : {"cudaHostRegister", "cuMemHostRegister_v2"}) {
        CHECK(operation_in(cookie(symbol)) == CUDA_ALLOCATE);
        CHECK(variant_in(cookie(symbol)) == MEMORY_pinned_host);
        CHECK(CUDA_COOKIE_SLOT(cookie(symbol), CUDA_ADDRESS) == 0);
        CHECK(CUDA_COOKIE_SLOT(cookie(symbol), CUDA_SOURCE) == 1);
    }
    CHECK(operation_in(cookie("cudaHostUnregister")) == CUDA_FREE);
}

TEST_CASE("only the driver's functions say that a batch has an index of what failed") {
    for (const CudaFunction &one : cuda_functions()) {
        CAPTURE(one.symbol);
        const bool is_batch = one.symbol.find("BatchAsync") != std::string_view::npos;
        const bool is_of_12 =
            is_batch && one.is_driver() && one.symbol.find("_v2") == std::string_view::npos;
        CHECK(is_batch == (one.operation == CUDA_COPY && variant_in(one.cookie) >= CUDA_BATCH));
        CHECK(is_of_12 == ((variant_in(one.cookie) & CUDA_BATCH_FAIL_INDEX) != 0));
    }
}

TEST_CASE("the numbers of functions are in range for every position of a cookie") {
    for (const CudaFunction &one : cuda_functions()) {
        CAPTURE(one.symbol);
        CHECK(one.entry_only == (operation_in(one.cookie) == CUDA_REGISTER));
        CHECK(variant_in(one.cookie) < 16);
        CHECK((one.cookie & CUDA_EXITS) == 0);
        CHECK((one.cookie & CALL_STEPPED) == 0);
        CHECK(((one.cookie & CUDA_OF_DRIVER) != 0) == one.is_driver());
        CHECK((one.cookie >> 61) < HOST_PHASE_COUNT);
    }
}

TEST_CASE("a failed call is an error by name and nothing else") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(failed("cudaMalloc", 2));
    fixture.calls(failed("cudaMemcpy", 987'654));
    fixture.calls(failed("cudaMemcpy", -1));
    fixture.apply_all();
    CHECK(fixture.page("cuda_api_errors_total") ==
          Page{{{"python", "", "", "", "cudaMalloc", "cudaErrorMemoryAllocation"}, 1},
               {{"python", "", "", "", "cudaMemcpy", "code_987654"}, 1},
               {{"python", "", "", "", "cudaMemcpy", "code_-1"}, 1}});
    CHECK(fixture.page("cuda_memory_allocations_total").empty());
    CHECK(fixture.page("cuda_memcpy_bytes_total").empty());
}

TEST_CASE("errors of the driver API have the names of CUresult") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(failed("cuMemAlloc_v2", 2));
    fixture.calls(failed("cuMemcpyHtoDAsync_v2_ptsz", 201));
    fixture.calls(failed("cudaMemcpyAsync_ptsz", 700));
    fixture.calls(failed("cuLaunchKernel", 54'321));
    CHECK(fixture.page("cuda_api_errors_total") ==
          Page{{{"python", "", "", "", "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY"}, 1},
               {{"python", "", "", "", "cuMemcpyHtoDAsync", "CUDA_ERROR_INVALID_CONTEXT"}, 1},
               {{"python", "", "", "", "cudaMemcpyAsync", "cudaErrorIllegalAddress"}, 1},
               {{"python", "", "", "", "cuLaunchKernel", "code_54321"}, 1}});
}

TEST_CASE("errors of what users do not call themselves are not shown") {
    Fixture fixture;
    fixture.allocations(process());
    for (const auto *symbol :
         {"__cudaGetKernel", "cudaGetKernel", "cudaGetFuncBySymbol", "cuKernelGetFunction",
          "cuModuleGetFunction", "cuLibraryGetKernel"}) {
        fixture.calls(failed(symbol, 500));
        fixture.allocations(failed(symbol, 500));
    }
    CHECK(fixture.page("cuda_api_errors_total").empty());
    CHECK(fixture.aggregator->undecodable() == 0);
    fixture.calls(failed("cuCtxSetCurrent", 201));
    CHECK(fixture.sum("cuda_api_errors_total", {"cuCtxSetCurrent"}) == 1);
}

TEST_CASE("errors of CUPTI have the names of CUptiResult, and do not say how a process has CUDA") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.calls(failed("cuptiSubscribe_v2", 39));
    fixture.calls(failed("cuptiUnsubscribe", 12'345));
    CHECK(fixture.page("cuda_api_errors_total") ==
          Page{{{"python", "", "", "", "cuptiSubscribe",
                 "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
                1},
               {{"python", "", "", "", "cuptiUnsubscribe", "code_12345"}, 1}});
    CHECK(linkage(fixture) == "unknown");
}

TEST_CASE("the label profiler is what the kernel's table says now") {
    Fixture fixture;
    fixture.allocations(process());
    const auto profiler = [&] { return fixture.page("process_info").begin()->first.back(); };
    CHECK(profiler().empty());
    fixture.profiled.insert(bench_pid);
    CHECK(profiler() == "cupti");
    fixture.profiled = {bench_pid + 1};
    CHECK(profiler().empty());
}

TEST_CASE("an error of a call through a static runtime is the function's") {
    Fixture fixture;
    fixture.allocations(process());
    auto record = failed("cudaMalloc", 2);
    record.head.function |= CUDA_STATIC_RUNTIME;
    fixture.allocations(record);
    CHECK(fixture.sum("cuda_api_errors_total", {"cudaMalloc", "cudaErrorMemoryAllocation"}) == 1);
    CHECK(linkage(fixture) == "static");
}

TEST_CASE("of the ways in which a process has the runtime, the first of these is shown") {
    Fixture fixture;
    fixture.allocations(process());
    CHECK(linkage(fixture) == "unknown");
    SECTION("each weighs more than those before it") {
        fixture.calls(launched_by("cuLaunchKernel"));
        CHECK(linkage(fixture) == "driver_only");
        fixture.calls(launched_by("cudaLaunchKernel", true));
        CHECK(linkage(fixture) == "static");
        fixture.calls(launched_by("cuLaunchKernel"));
        CHECK(linkage(fixture) == "static");
        fixture.calls(launched_by("cudaLaunchKernel"));
        CHECK(linkage(fixture) == "shared");
        fixture.calls(launched_by("cudaLaunchKernel", true));
        fixture.calls(launched_by("cuLaunchKernel"));
        CHECK(linkage(fixture) == "shared");
    }
    SECTION("a record that no call made says nothing") {
        auto record = launch(1, 1);
        record.head.function = CUDA_NO_FUNCTION;
        fixture.calls(record);
        CHECK(linkage(fixture) == "unknown");
    }
}

TEST_CASE("functions that give memory are told from those that take it back") {
    std::set<std::string_view> giving;
    for (const CudaFunction &function : cuda_functions()) {
        if (allocates(function.cookie)) {
            giving.insert(function.name);
        }
    }
    for (const auto *name :
         {"cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocPitch", "cudaMalloc3D",
          "cudaHostAlloc", "cuMemAlloc", "cuMemCreate", "cuMemMap", "cuMemAllocFromPoolAsync"}) {
        CAPTURE(name);
        CHECK(giving.contains(name));
    }
    for (const auto *name : {"cudaFree", "cudaFreeAsync", "cudaFreeHost", "cuMemFree", "cuMemUnmap",
                             "cudaDeviceReset", "cuCtxDestroy", "cudaLaunchKernel"}) {
        CAPTURE(name);
        CHECK_FALSE(giving.contains(name));
    }
}
