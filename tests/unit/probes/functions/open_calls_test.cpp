// The calls of named functions that are in flight, or that never returned.
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop::probes;

namespace {

open_call_record open_record(std::uint64_t cookie) {
    open_call_record record{};
    record.since_ns = bench_since;
    record.tgid = bench_pid;
    record.returns_to = 0x77;
    record.call.started_ns = 5'000;
    record.call.cookie = cookie;
    record.call.sp = 0x99;
    record.call.tid = 43;
    std::memcpy(record.call.comm, "worker", 6);
    for (std::uint64_t i = 0; i < OPEN_CALL_ARGUMENTS; i++) {
        record.call.argument[i] = 0x10 * (i + 1);
    }
    return record;
}

using CallArguments = std::vector<std::pair<std::uint8_t, std::uint64_t>>;

}  // namespace

TEST_CASE("a call in flight has the names of its function and its process") {
    FunctionsFixture fixture;
    fixture.tell(process("python"));
    const auto number = fixture.number("f", {.arguments = {3, 1}});
    const auto call = fixture.aggregator->open_call(open_record(number | FUNC_EXITS));
    REQUIRE(call);
    CHECK(call->function == "f");
    CHECK(call->library == "libx.so.1");
    CHECK(call->is_file_known);
    CHECK(call->comm == "python");
    CHECK(call->pid == bench_pid);
    CHECK(call->tid == 43);
    CHECK(call->thread == "worker");
    CHECK(call->began_ns == 5'000);
    CHECK(call->sp == 0x99);
    CHECK(call->returns_to == 0x77);
    CHECK(call->arguments == CallArguments{{3, 0x30}, {1, 0x10}});
    CHECK(call->gpu.empty());
    CHECK_FALSE(call->nccl);
    CHECK_FALSE(fixture.aggregator->open_call(open_record(number + 1)));
}

TEST_CASE("a seventh argument is shown only where it was read") {
    FunctionsFixture fixture;
    const auto number = fixture.number("f", {.arguments = {7}});
    CHECK(fixture.aggregator->open_call(open_record(number))->arguments.empty());
    CHECK(fixture.aggregator->open_call(open_record(number | FUNC_SEVENTH))->arguments ==
          CallArguments{{7, 0x70}});
}

TEST_CASE("a call that never returned is reported once, and is no call that ended") {
    FunctionsFixture fixture;
    fixture.tell(process("python"));
    func_unreturned_record record{};
    record.head = head(FUNC_RECORD_UNRETURNED, 9'000);
    record.unreturned.call = open_record(fixture.number("f")).call;
    record.unreturned.signal = 9;
    fixture.tell(record);
    const auto unreturned = fixture.aggregator->take_unreturned();
    REQUIRE(unreturned.size() == 1);
    CHECK(unreturned[0].function == "f");
    CHECK(unreturned[0].comm == "python");
    CHECK(unreturned[0].ended_ns == 9'000);
    CHECK(unreturned[0].signal == 9);
    CHECK(fixture.aggregator->take_unreturned().empty());
    CHECK(fixture.page("function_calls_total").empty());
    CHECK(fixture.aggregator->undecodable() == 0);

    SECTION("and one of a function that nobody knows is undecodable") {
        record.unreturned.call.cookie = 77;
        fixture.tell(record);
        CHECK(fixture.aggregator->take_unreturned().empty());
        CHECK(fixture.aggregator->undecodable() == 1);
    }
    SECTION("and a flood of them has its limit") {
        for (int i = 0; i < 5'000; i++) {
            fixture.tell(record);
        }
        CHECK(fixture.aggregator->take_unreturned().size() == 1'000);
    }
}

TEST_CASE("an operation of NCCL that hangs is the next one of its communicator") {
    NcclCommunicators communicators;
    const NcclFunction make = *nccl_function("ncclCommInitRankScalable");
    const NcclFunction reduce = *nccl_function("ncclAllReduce");
    func_arguments_record made{};
    made.call.head.ended_ns = 500;
    made.argument[1] = 8;
    made.argument[2] = 3;
    made.pointed = 0xc;
    made.has_pointed = 1;
    made.argument[6] = 0xabcd'0123ULL << 32;
    const auto take = [&](const NcclFunction &function, const func_arguments_record &record) {
        (void)communicators.take(function, record, {}, [] { return std::string(); });
    };
    take(make, made);
    made.pointed = 0xd;
    take(make, made);
    func_arguments_record call{};
    call.argument[5] = 0xd;
    take(reduce, call);
    take(reduce, call);

    const auto place = communicators.place(reduce, call.argument);
    REQUIRE(place);
    CHECK(place->communicator == 2);
    CHECK(place->hash == "abcd0123");
    CHECK(place->rank == 3U);
    CHECK(place->nranks == 8U);
    CHECK(place->sequence == 3);
    call.argument[5] = 0xc;
    CHECK(communicators.place(reduce, call.argument)->sequence == 1);
    call.argument[5] = 0xe;
    CHECK_FALSE(communicators.place(reduce, call.argument));
    CHECK_FALSE(communicators.place(make, call.argument));
}

TEST_CASE("a call from before its number was given is of a function that was detached") {
    FunctionsFixture fixture;
    fixture.tell(process("python"));
    const FunctionInfo f{"libx.so.1", "group", "f", {}};
    const auto number = fixture.table.add(f, std::chrono::nanoseconds(5'001));
    CHECK_FALSE(fixture.aggregator->open_call(open_record(number)));
    const auto other = fixture.table.add(f, std::chrono::nanoseconds(5'000));
    CHECK(fixture.aggregator->open_call(open_record(other)));
}
