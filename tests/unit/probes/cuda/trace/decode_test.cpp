// What a record of a traced call becomes.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "bpf/cuda/functions.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/launches/cuda_kernel_name.h"
#include "exporter/probes/cuda/trace/decode.h"

using namespace gpusnoop;
using namespace gpusnoop::trace;
using gpusnoop::symbols::kernel_parameters;

namespace {

std::uint16_t number_of(std::string_view symbol) {
    const auto functions = probes::cuda_functions();
    for (std::uint16_t i = 0; i < functions.size(); i++) {
        if (functions[i].symbol == symbol) {
            return i;
        }
    }
    FAIL("no function " << symbol);
    return 0;
}

cuda_trace_record record_of(std::string_view symbol, unsigned fields) {
    cuda_trace_record record{};
    record.memory.head.function = number_of(symbol);
    record.memory.head.ended_ns = 5000;
    record.memory.head.duration_ns = 2000;
    record.memory.head.tgid = 7;
    record.memory.head.device = 0;
    record.tid = 8;
    record.fields = static_cast<std::uint16_t>(fields);
    return record;
}

std::optional<Value> find(const std::vector<Detail> &list, std::string_view key) {
    for (const auto &[name, value] : list) {
        if (name == key) {
            return value;
        }
    }
    return std::nullopt;
}

std::optional<Value> detail(const Event &call, std::string_view key) {
    return find(call.details, key);
}

std::optional<Value> result(const Event &call, std::string_view key) {
    return find(call.results, key);
}

Value text(std::string_view value) {
    return std::string(value);
}

}  // namespace

TEST_CASE("a traced call says when it began, where, and how it ended") {
    auto record = record_of("cuMemAlloc_v2", TRACE_BYTES | TRACE_KIND | TRACE_ADDRESS);
    record.memory.head.result = 2;
    record.memory.head.device = 3;
    record.memory.bytes = 4096;
    record.memory.kind = MEMORY_managed;
    record.memory.destination = 0x7f00;
    const Event call = decode(record, 1'000'000, "", {});
    CHECK(call.time_ns == 1'003'000);
    CHECK(call.duration_ns == 2000);
    CHECK(call.pid == 7);
    CHECK(call.tid == 8);
    CHECK(call.kind == "function");
    CHECK(call.name == "cuMemAlloc_v2");
    CHECK(call.result == "CUDA_ERROR_OUT_OF_MEMORY");
    CHECK(call.results == std::vector<Detail>{{"api", text("driver")},
                                              {"linkage", text("shared")},
                                              {"operation", text("allocate")},
                                              {"result", std::int64_t{2}},
                                              {"result_name", text("CUDA_ERROR_OUT_OF_MEMORY")}});
    CHECK(detail(call, "device") == Value(std::int64_t{3}));
    CHECK(detail(call, "bytes") == Value(std::uint64_t{4096}));
    CHECK(detail(call, "memory_kind") == text("managed"));
    CHECK(detail(call, "address") == Value(Word{0x7f00}));
    CHECK(call.details.size() == 4);
}

TEST_CASE("what a record does not say is not made up") {
    auto record = record_of("cudaFree", TRACE_ADDRESS | TRACE_KIND);
    record.memory.head.device = CUDA_DEVICE_UNCHOSEN;
    record.memory.bytes = 99;
    CHECK(detail(decode(record, 0, "", {}), "device") == Value());
    CHECK_FALSE(detail(decode(record, 0, "", {}), "bytes"));
    record.memory.head.device = CUDA_DEVICE_UNKNOWN;
    CHECK(detail(decode(record, 0, "", {}), "device") == Value());

    const Event launch = decode(record_of("cudaLaunchKernelExC", TRACE_KERNEL), 0, "", {});
    CHECK(detail(launch, "kernel") == text("unknown"));
    CHECK_FALSE(detail(launch, "grid"));
    CHECK_FALSE(detail(launch, "shared_bytes"));
    CHECK_FALSE(detail(launch, "stream"));
}

TEST_CASE("a copy has two addresses, a direction and a mode") {
    const unsigned fields = TRACE_ADDRESS | TRACE_SOURCE | TRACE_BYTES | TRACE_KIND | TRACE_STREAM;
    auto record = record_of("cudaMemcpyAsync", fields);
    record.memory.destination = 1;
    record.memory.source = 2;
    record.memory.kind = COPY_D2H;
    record.memory.is_async = 1;
    record.memory.stream = 3;
    Event call = decode(record, 0, "", {});
    CHECK(result(call, "operation") == text("copy"));
    CHECK(detail(call, "destination") == Value(Word{1}));
    CHECK(detail(call, "source") == Value(Word{2}));
    CHECK(detail(call, "direction") == text("d2h"));
    CHECK(detail(call, "mode") == text("async"));
    CHECK(detail(call, "stream") == Value(Word{3}));
    record.memory.is_async = 0;
    record.memory.kind = 77;
    call = decode(record, 0, "", {});
    CHECK(detail(call, "mode") == text("sync"));
    CHECK(detail(call, "direction") == text("unknown"));
}

TEST_CASE("a handle goes by what it is of") {
    auto record = record_of("cuMemMap", TRACE_ADDRESS | TRACE_SOURCE | TRACE_BYTES);
    record.memory.source = 5;
    CHECK(detail(decode(record, 0, "", {}), "handle") == Value(Word{5}));
    CHECK(detail(decode(record_of("cuCtxSetCurrent", TRACE_ADDRESS), 0, "", {}), "context"));
    CHECK(detail(decode(record_of("cuMemRetainAllocationHandle", TRACE_ADDRESS), 0, "", {}),
                 "handle"));
}

TEST_CASE("a time between events is there in nanoseconds, if it can be true") {
    auto record = record_of("cudaEventElapsedTime", TRACE_ELAPSED);
    record.memory.bytes = std::bit_cast<std::uint32_t>(0.0025F);
    CHECK(detail(decode(record, 0, "", {}), "elapsed_ns") == Value(std::uint64_t{2500}));
    record.memory.bytes = std::bit_cast<std::uint32_t>(0.006F);  // longer than the machine runs
    CHECK_FALSE(detail(decode(record, 0, "", {}), "elapsed_ns"));
    record.memory.bytes = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
    CHECK_FALSE(detail(decode(record, 0, "", {}), "elapsed_ns"));
    CHECK_FALSE(detail(decode(record_of("cudaEventElapsedTime", 0), 0, "", {}), "elapsed_ns"));
}

TEST_CASE("a launch has as many arguments as its kernel has parameters") {
    auto record =
        record_of("cudaLaunchKernel", TRACE_KERNEL | TRACE_SHAPE | TRACE_SHARED | TRACE_STREAM);
    record.kernel = 0xabc;
    record.word_count = 5;
    for (std::uint64_t i = 0; i < CUDA_TRACE_WORDS; i++) {
        record.words[i] = 100 + i;
    }
    for (std::uint32_t i = 0; i < 3; i++) {
        record.grid[i] = i + 1;
        record.block[i] = i + 11;
    }
    record.shared_bytes = 0x1'0000'0040;
    const auto arguments = [&](std::optional<std::size_t> parameters) {
        return std::get<std::vector<Word>>(
            *detail(decode(record, 0, "add", parameters), "arguments"));
    };
    CHECK(arguments({}) == std::vector<Word>{{100}, {101}, {102}, {103}, {104}});
    CHECK(arguments(2) == std::vector<Word>{{100}, {101}});
    CHECK(arguments(0).empty());
    CHECK(arguments(9).size() == 5);
    record.word_count = 255;
    CHECK(arguments({}).size() == CUDA_TRACE_WORDS);

    const Event call = decode(record, 0, "add", {});
    CHECK(detail(call, "kernel") == text("add"));
    CHECK(detail(call, "kernel_handle") == Value(Word{0xabc}));
    CHECK(detail(call, "grid") == Value(Size3{1, 2, 3}));
    CHECK(detail(call, "block") == Value(Size3{11, 12, 13}));
    CHECK(detail(call, "shared_bytes") == Value(std::uint64_t{0x1'0000'0040}));

    SECTION("of a driver's configuration, only the half that is the size") {
        record.memory.head.function = number_of("cuLaunchKernelEx");
        CHECK(detail(decode(record, 0, "", {}), "shared_bytes") == Value(std::uint64_t{0x40}));
        record.memory.head.function = number_of("cudaLaunchKernelExC");
        CHECK(detail(decode(record, 0, "", {}), "shared_bytes") ==
              Value(std::uint64_t{0x1'0000'0040}));
    }
}

TEST_CASE("a result has the name that its library gives it") {
    const auto named = [](std::string_view symbol, std::int32_t code) {
        auto record = record_of(symbol, 0);
        record.memory.head.result = code;
        const Event call = decode(record, 0, "", {});
        CHECK(result(call, "result") == Value(std::int64_t{code}));
        CHECK(result(call, "result_name") == text(call.result));
        return call.result;
    };
    CHECK(named("cudaFree", 2) == "cudaErrorMemoryAllocation");
    CHECK(named("cuMemAlloc_v2", 2) == "CUDA_ERROR_OUT_OF_MEMORY");
    CHECK(named("cudaFree", 424'242) == "424242");
    CHECK(named("cuMemAlloc_v2", 424'242) == "424242");
}

TEST_CASE("a call through a runtime in the executable is told apart") {
    auto record = record_of("cudaDeviceSynchronize", 0);
    record.memory.head.function |= CUDA_STATIC_RUNTIME;
    const Event call = decode(record, 0, "", {});
    CHECK(result(call, "linkage") == text("static"));
    CHECK(result(call, "api") == text("runtime"));
    CHECK(call.name == "cudaDeviceSynchronize");
    CHECK(call.details.size() == 1);  // the device
}

TEST_CASE("any bytes make a call") {
    for (const int byte : {0x00, 0x55, 0xaa, 0xff}) {
        cuda_trace_record record;
        std::memset(&record, byte, sizeof(record));
        for (std::uint32_t function = 0; function <= 0xffff; function += 7) {
            record.memory.head.function = static_cast<std::uint16_t>(function);
            const Event call = decode(record, std::numeric_limits<std::int32_t>::max(), "k", {});
            CHECK(call.details.size() < 16);
        }
    }
}

TEST_CASE("a batch has the number of its copies, and no direction of its own") {
    auto record = record_of("cudaMemcpyBatchAsync", TRACE_COPIES | TRACE_STREAM);
    record.memory.bytes = 300;
    record.memory.stream = 0x77;
    record.memory.is_async = 1;
    const Event call = decode(record, 0, "", std::nullopt);
    CHECK(detail(call, "copies") == Value(std::uint64_t{300}));
    CHECK(detail(call, "stream") == Value(Word{0x77}));
    CHECK(detail(call, "mode") == text("async"));
    CHECK_FALSE(detail(call, "bytes"));
    CHECK_FALSE(detail(call, "direction"));
    CHECK(result(call, "operation") == text("copy"));
}

// How many parameters a kernel has, from its mangled name.

TEST_CASE("a mangled name tells how many parameters the kernel has") {
    CHECK(kernel_parameters("_Z5emptyv") == 0);
    CHECK(kernel_parameters("_Z3addPfPKfi") == 3);
    CHECK(kernel_parameters("_ZL3addPf") == 1);
    CHECK(kernel_parameters("_Z12sixteenWordsmmmmmmmmmmmmmmmm") == 16);
    CHECK(kernel_parameters("_ZN4demo6linear15matrix_multiplyEPKfS2_Pfii") == 5);
    CHECK(kernel_parameters("_ZN12_GLOBAL__N_13addEPf") == 1);
    CHECK(kernel_parameters("_Z3addPfPKfi.cold") == 3);
    CHECK(kernel_parameters("_Z3sumRKSt6vectorIfSaIfEES1_") == 2);
    CHECK(kernel_parameters("_Z3runPFviEf") == 2);
}

TEST_CASE("a template's name has its result in front of its parameters") {
    CHECK(kernel_parameters("_Z5scaleIfEvPT_i") == 2);
    CHECK(kernel_parameters("_ZN4demo6reduceIfEEvPKT_PS1_i") == 3);
    CHECK(kernel_parameters("_Z3addILi3EEvPfSt6vectorIfSaIfEE") == 2);
    CHECK(kernel_parameters("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_"
                            "addIfEESt5arrayIPcLm3EEEEviT0_T1_") == 3);
    CHECK(kernel_parameters("_Z5emptyIfEvv") == 0);
    CHECK(kernel_parameters("_Z7largestIfET_S0_S0_") == 2);
}

TEST_CASE("of a host stub's name the kernel's part counts") {
    CHECK(kernel_parameters("_Z26__device_stub__Z3addPfPKfiPfPKfi") == 3);
}

TEST_CASE("a name that does not tell gives no number") {
    CHECK_FALSE(kernel_parameters("add"));
    CHECK_FALSE(kernel_parameters(""));
    CHECK_FALSE(kernel_parameters("_Z"));
    CHECK_FALSE(kernel_parameters("_Z1fIJifEEvDpT_"));  // a pack: any number
    CHECK_FALSE(kernel_parameters("_Z3addPfPQ"));       // a type that is not known
    CHECK_FALSE(kernel_parameters("_Z999add"));
    CHECK_FALSE(kernel_parameters("_Z1f" + std::string(100'000, 'P')));
}
