// The CUDA calls that are in flight, or that never returned.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string_view>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop::probes;

namespace {

struct open_call cuda_call_of(std::string_view symbol) {
    struct open_call call{};
    call.started_ns = 5'000;
    call.cookie = cuda_functions()[function_of(symbol)].cookie;
    call.sp = 0x99;
    call.tid = 43;
    call.device = 1;
    std::memcpy(call.comm, "worker", 6);
    for (std::uint64_t i = 0; i < OPEN_CALL_ARGUMENTS; i++) {
        call.argument[i] = 0x10 * (i + 1);
    }
    return call;
}

open_call_record open_record_of(std::string_view symbol) {
    open_call_record record{};
    record.call = cuda_call_of(symbol);
    record.since_ns = bench_since;
    record.tgid = bench_pid;
    record.returns_to = 0x77;
    return record;
}

using CallArguments = std::vector<std::pair<std::uint8_t, std::uint64_t>>;

}  // namespace

TEST_CASE("a CUDA call in flight has its function, its GPU and its sizes, and no address") {
    const Fixture fixture;
    fixture.allocations(process("python"));
    const OpenCall call = fixture.aggregator->open_call(open_record_of("cudaMemcpyAsync"));
    CHECK(call.function == "cudaMemcpyAsync");
    CHECK(call.library == "libcudart");
    CHECK_FALSE(call.is_file_known);
    CHECK(call.comm == "python");
    CHECK(call.pid == bench_pid);
    CHECK(call.tid == 43);
    CHECK(call.thread == "worker");
    CHECK(call.gpu == "5");
    CHECK(call.returns_to == 0x77);
    CHECK(call.arguments == CallArguments{{3, 0x30}, {4, 0x40}});
    CHECK(fixture.aggregator->open_call(open_record_of("cuMemAlloc_v2")).library == "libcuda");
    CHECK(fixture.aggregator->open_call(open_record_of("cuMemAlloc_v2")).arguments ==
          CallArguments{{2, 0x20}});
    // Its second argument is where the pitch is put.
    for (const auto &[position, value] :
         fixture.aggregator->open_call(open_record_of("cudaMallocPitch")).arguments) {
        CHECK(position != 2);
    }
}

TEST_CASE("a device that is not known is no GPU") {
    const Fixture fixture;
    auto record = open_record_of("cudaMalloc");
    record.call.device = CUDA_DEVICE_UNKNOWN;
    CHECK(fixture.aggregator->open_call(record).gpu.empty());
}

TEST_CASE("a runtime in the program, and a number that is no function's, do no harm") {
    const Fixture fixture;
    auto record = open_record_of("cudaMalloc");
    record.call.cookie |= CUDA_STATIC_RUNTIME;
    CHECK(fixture.aggregator->open_call(record).function == "cudaMalloc");
    record.call.cookie = CUDA_NO_FUNCTION;
    CHECK(fixture.aggregator->open_call(record).function == "unknown");
}

TEST_CASE("a CUDA call that never returned is reported once") {
    const Fixture fixture;
    fixture.allocations(process("python"));
    cuda_unreturned_record record{};
    record.head = head(CUDA_RECORD_UNRETURNED, "", 9'000);
    record.unreturned.call = cuda_call_of("cudaFree");
    record.unreturned.signal = 9;
    fixture.calls(record);
    const auto unreturned = fixture.aggregator->take_unreturned();
    REQUIRE(unreturned.size() == 1);
    CHECK(unreturned[0].function == "cudaFree");
    CHECK(unreturned[0].ended_ns == 9'000);
    CHECK(unreturned[0].signal == 9);
    CHECK(fixture.aggregator->take_unreturned().empty());
    CHECK(fixture.aggregator->undecodable() == 0);
    record.unreturned.call.cookie = CUDA_NO_FUNCTION;
    fixture.calls(record);
    CHECK(fixture.aggregator->take_unreturned().empty());
    CHECK(fixture.aggregator->undecodable() == 1);
}
