#include "exporter/probes/functions/count/nccl.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <initializer_list>

using namespace gpusnoop::probes;

namespace {

func_arguments_record call(std::initializer_list<std::uint64_t> arguments,
                           std::uint64_t ended_ns = 1'000, std::uint64_t duration_ns = 10) {
    func_arguments_record record{};
    std::copy(arguments.begin(), arguments.end(), record.argument);
    record.call.head.ended_ns = ended_ns;
    record.call.duration_ns = duration_ns;
    return record;
}

func_arguments_record makes(std::uint64_t handle, std::uint64_t nranks, std::uint64_t rank,
                            std::uint64_t ended_ns = 500) {
    auto record = call({0x10, nranks, rank}, ended_ns);
    record.pointed = handle;
    record.has_pointed = 1;
    return record;
}

const NcclFunction all_reduce = *nccl_function("ncclAllReduce");
const NcclFunction make = *nccl_function("ncclCommInitRankScalable");
const NcclFunction destroy = *nccl_function("ncclCommDestroy");

NcclCount all_reduced(NcclCommunicators &communicators, std::uint64_t handle,
                      std::uint64_t count = 100, std::uint64_t datatype = 7, std::uint64_t op = 0) {
    const auto counted =
        communicators.take(all_reduce, call({0x1, 0x2, count, datatype, op, handle}));
    REQUIRE(counted);
    return *counted;
}

}  // namespace

TEST_CASE("NCCL's functions are known by their symbols, also by those for profilers") {
    CHECK(nccl_function("pncclAllReduce") == nccl_function("ncclAllReduce"));
    CHECK(nccl_function("ncclReduce")->communicator == 7);
    for (const char *other :
         {"ncclBcast", "ncclGroupEnd", "cudaMalloc", "pnccl", "", "ppncclSend"}) {
        CHECK_FALSE(nccl_function(other));
    }
}

TEST_CASE("an operation is of the rank that its communicator was made for") {
    NcclCommunicators communicators;
    CHECK(all_reduced(communicators, 0xc).operation ==
          NcclOperation{"float32", "sum", "unknown", "unknown"});
    CHECK_FALSE(communicators.take(make, makes(0xc, 8, 3)));
    CHECK_FALSE(communicators.take(make, makes(0xd, 2, 1)));
    CHECK(all_reduced(communicators, 0xc).operation == NcclOperation{"float32", "sum", "3", "8"});
    CHECK(all_reduced(communicators, 0xd).operation == NcclOperation{"float32", "sum", "1", "2"});

    SECTION("until it ends") {
        CHECK_FALSE(communicators.take(destroy, call({0xc})));
        CHECK(all_reduced(communicators, 0xc).operation.rank == "unknown");
        CHECK(all_reduced(communicators, 0xd).operation.rank == "1");
    }
    SECTION("and of the new one, when another thread is given the handle while it ends") {
        CHECK_FALSE(communicators.take(make, makes(0xc, 4, 2, 995)));
        CHECK_FALSE(communicators.take(destroy, call({0xc}, 1'000, 10)));
        CHECK(all_reduced(communicators, 0xc).operation ==
              NcclOperation{"float32", "sum", "2", "4"});
    }
    SECTION("or unknown, when what is said of the new one makes no sense") {
        CHECK_FALSE(communicators.take(make, makes(0xc, 4, 4)));
        CHECK(all_reduced(communicators, 0xc).operation.rank == "unknown");
    }
    SECTION("or as before, when the new handle could not be read") {
        CHECK_FALSE(communicators.take(make, call({0x10, 4, 1})));
        CHECK(all_reduced(communicators, 0xc).operation.rank == "3");
    }
}

TEST_CASE("sizes are elements times what one takes, of the lower half of the type's register") {
    NcclCommunicators communicators;
    CHECK(all_reduced(communicators, 0, 100, 7).bytes == 400);
    CHECK(all_reduced(communicators, 0, 100, 0xabcd'0000'0008).bytes == 800);
    CHECK(all_reduced(communicators, 0, 100, 11).bytes == 100);
    CHECK(all_reduced(communicators, 0, 0, 1).bytes == 0);
    const auto unknown = all_reduced(communicators, 0, 100, 12);
    CHECK_FALSE(unknown.bytes);
    CHECK(unknown.operation.datatype == "unknown");
    CHECK_FALSE(all_reduced(communicators, 0, ~std::uint64_t{0}, 7).bytes);
}

TEST_CASE(
    "operators of a program's own are custom ones, and functions that reduce nothing have none") {
    NcclCommunicators communicators;
    CHECK(all_reduced(communicators, 0, 1, 7, 4).operation.op == "avg");
    CHECK(all_reduced(communicators, 0, 1, 7, 5).operation.op == "custom");
    const auto sent = communicators.take(*nccl_function("ncclSend"), call({0x1, 3, 4, 0, 0xc}));
    REQUIRE(sent);
    CHECK(sent->operation.op.empty());
    CHECK(sent->bytes == 24);
}

TEST_CASE("a process that makes communicators without end does not fill the exporter's memory") {
    NcclCommunicators communicators;
    for (std::uint64_t handle = 1; handle <= 10'000; handle++) {
        CHECK_FALSE(communicators.take(make, makes(handle, 2, 1)));
    }
    CHECK(all_reduced(communicators, 1).operation.rank == "1");
    CHECK(all_reduced(communicators, 10'000).operation.rank == "unknown");
}
