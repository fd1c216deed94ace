// What a record of a batch becomes.
#include <array>
#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/cuda/copies/copies.h"
#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

cuda_batch_record batch_record(std::uint32_t copies, bool is_3d) {
    cuda_batch_record record{};
    record.head =
        head(CUDA_RECORD_BATCH, is_3d ? "cudaMemcpy3DBatchAsync" : "cudaMemcpyBatchAsync", 2'000);
    record.head.duration_ns = 900;
    record.stream = 77;
    record.copies = copies;
    record.is_3d = is_3d ? 1 : 0;
    return record;
}

// As cudaMemcpy3DBatchOp lies in memory: type and pointer of the source, of the destination,
// extent.
void put_shape(cuda_batch_record &record, std::size_t at, std::array<std::uint64_t, 2> source,
               std::array<std::uint64_t, 2> destination) {
    __u64 *const words = record.words + at * CUDA_BATCH_3D_WORDS;
    words[0] = source[0] | std::uint64_t{0xdead} << 32U;  // padding is not cleared
    words[1] = source[1];
    words[5] = destination[0];
    words[6] = destination[1];
    words[10] = 8;
    words[11] = 3;
    words[12] = 2;
}

// cudaMemcpy3DOperandType
constexpr std::uint64_t pointer_operand = 1;
constexpr std::uint64_t array_operand = 2;

}  // namespace

TEST_CASE("a batch is its copies, and its duration is that of the first one") {
    auto record = batch_record(3, false);
    for (std::size_t i = 0; i < 3; i++) {
        record.words[i] = 100 + i;
        record.words[CUDA_BATCH_COPIES + i] = 200 + i;
        record.words[2 * CUDA_BATCH_COPIES + i] = 10 * i;
    }
    const auto copies = copies_of(record);
    REQUIRE(copies.size() == 3);
    for (std::size_t i = 0; i < 3; i++) {
        CHECK(copies[i].destination == 100 + i);
        CHECK(copies[i].source == 200 + i);
        CHECK(copies[i].bytes == 10 * i);
        CHECK(copies[i].kind == COPY_DEFAULT);
        CHECK(copies[i].stream == 77);
        CHECK(copies[i].is_async == 1);
        CHECK(copies[i].head.ended_ns == record.head.ended_ns);
        CHECK(copies[i].head.duration_ns == (i == 0 ? 900 : 0));
    }
}

TEST_CASE("a record cannot say more copies than it has") {
    CHECK(copies_of(batch_record(~0U, false)).size() == CUDA_BATCH_COPIES);
    CHECK(copies_of(batch_record(~0U, true)).size() == CUDA_BATCH_3D_COPIES);
    CHECK(copies_of(batch_record(0, false)).empty());
}

TEST_CASE("a copy of a batch of shapes has the size of its extent") {
    auto record = batch_record(2, true);
    put_shape(record, 0, {pointer_operand, 5}, {pointer_operand, 6});
    put_shape(record, 1, {pointer_operand, 7}, {pointer_operand, 8});
    const auto copies = copies_of(record);
    REQUIRE(copies.size() == 2);
    CHECK(copies[0].source == 5);
    CHECK(copies[0].destination == 6);
    CHECK(copies[1].destination == 8);
    CHECK(copies[1].bytes == 48);
    CHECK(copies[1].kind == COPY_DEFAULT);
}

TEST_CASE("an array is on the device, and its bytes are unknown") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 4'096, 1'000));
    auto record = batch_record(4, true);
    put_shape(record, 0, {array_operand, 9}, {pointer_operand, 0x1000});
    put_shape(record, 1, {pointer_operand, 0x10}, {array_operand, 9});
    put_shape(record, 2, {array_operand, 9}, {pointer_operand, 0x10});
    put_shape(record, 3, {array_operand, 9}, {array_operand, 9});
    fixture.calls(record);
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memcpy_total") == 4);
    CHECK(fixture.sum("cuda_memcpy_total", {"d2d", "async"}) == 2);
    CHECK(fixture.sum("cuda_memcpy_total", {"h2d", "async"}) == 1);
    CHECK(fixture.sum("cuda_memcpy_total", {"d2h", "async"}) == 1);
    CHECK(fixture.sum("cuda_memcpy_bytes_total") == 0);
}
