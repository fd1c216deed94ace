#include "exporter/probes/functions/count/nccl.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

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

// ncclCommInitRankScalable(&handle, nranks, rank, ...), with the hash of its id.
func_arguments_record makes(std::uint64_t handle, std::uint64_t nranks, std::uint64_t rank,
                            std::uint64_t ended_ns = 500, std::uint64_t hash = 0xabcd'0123ULL << 32,
                            std::uint64_t address = 0x10) {
    auto record = call({address, nranks, rank}, ended_ns);
    record.argument[6] = hash;
    record.pointed = handle;
    record.has_pointed = 1;
    return record;
}

func_arguments_record splits(std::uint64_t parent, std::int32_t color, std::int32_t key,
                             std::uint64_t handle, std::uint64_t ended_ns = 600) {
    auto record =
        call({parent, static_cast<std::uint32_t>(color), static_cast<std::uint32_t>(key), 0x20},
             ended_ns);
    record.pointed = handle;
    record.has_pointed = 1;
    return record;
}

func_words_record words(func_words kind, std::uint64_t address, std::uint64_t ended_ns,
                        std::initializer_list<std::uint64_t> of) {
    func_words_record record{};
    record.head.ended_ns = ended_ns;
    record.address = address;
    record.kind = kind;
    std::copy(of.begin(), of.end(), record.word);
    return record;
}

const NcclFunction all_reduce = *nccl_function("ncclAllReduce");
const NcclFunction make = *nccl_function("ncclCommInitRankScalable");
const NcclFunction destroy = *nccl_function("ncclCommDestroy");
const NcclFunction split = *nccl_function("ncclCommSplit");

NcclSplits none;

auto take(NcclCommunicators &communicators, const NcclFunction &function,
          const func_arguments_record &record, const NcclSplits &with = none) {
    return communicators.take(function, record, with, [] { return std::string("process"); });
}

NcclCount all_reduced(NcclCommunicators &communicators, std::uint64_t handle,
                      std::uint64_t count = 100, std::uint64_t datatype = 7, std::uint64_t op = 0) {
    const auto counted =
        take(communicators, all_reduce, call({0x1, 0x2, count, datatype, op, handle}));
    REQUIRE(counted);
    return *counted;
}

NcclOperation shown_of(NcclCommunicators &communicators, std::uint64_t handle) {
    return all_reduced(communicators, handle).operation;
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

// Other nodes and versions, and people with a script, compute the same: these must not change.
TEST_CASE("the hash of a communicator is FNV-1a of its id, or of what it was made from") {
    std::string id(128, '\0');
    std::iota(id.begin(), id.end(), '\0');
    CHECK(nccl_hash(id) == 0x356c6cc8137514a5);
    CHECK(shown(nccl_hash(id)) == "356c6cc8");
    CHECK(shown(NcclHash{0}) == "unknown");
    CHECK(split_hash(0x356c6cc8137514a5, 2, -7) == 0x568142609e54daf1);
    CHECK(split_hash(0, 2, -7) == 0);
    const std::int32_t excluded[] = {11, 0, 3};
    CHECK(shrink_hash(0x356c6cc8137514a5, 1, excluded) == 0x372dba1ef638124c);
    CHECK(shrink_hash(0, 1, excluded) == 0);
}

TEST_CASE("an operation is of the rank that its communicator was made for") {
    NcclCommunicators communicators;
    CHECK(shown_of(communicators, 0xc) ==
          NcclOperation{"float32", "sum", "unknown", "unknown", "unknown"});
    CHECK_FALSE(take(communicators, make, makes(0xc, 8, 3)));
    CHECK_FALSE(take(communicators, make, makes(0xd, 2, 1, 500, 0x12345678'9abcdef0)));
    CHECK(shown_of(communicators, 0xc) == NcclOperation{"float32", "sum", "abcd0123", "3", "8"});
    CHECK(shown_of(communicators, 0xd) == NcclOperation{"float32", "sum", "12345678", "1", "2"});

    SECTION("until it ends") {
        CHECK_FALSE(take(communicators, destroy, call({0xc})));
        CHECK(shown_of(communicators, 0xc).rank == "unknown");
        CHECK(shown_of(communicators, 0xd).rank == "1");
        CHECK(communicators.take_ended() == std::vector<NcclHash>{0xabcd'0123ULL << 32});
        CHECK(communicators.take_ended().empty());
    }
    SECTION("and of the new one, when another thread is given the handle while it ends") {
        CHECK_FALSE(take(communicators, make, makes(0xc, 4, 2, 995)));
        CHECK_FALSE(take(communicators, destroy, call({0xc}, 1'000, 10)));
        CHECK(shown_of(communicators, 0xc).rank == "2");
    }
    SECTION("or unknown, when what is said of the new one makes no sense") {
        CHECK_FALSE(take(communicators, make, makes(0xc, 4, 4)));
        CHECK(shown_of(communicators, 0xc) ==
              NcclOperation{"float32", "sum", "unknown", "unknown", "unknown"});
    }
    SECTION("or as before, when the new handle could not be read") {
        CHECK_FALSE(take(communicators, make, call({0x10, 4, 1})));
        CHECK(shown_of(communicators, 0xc).rank == "3");
    }
}

TEST_CASE("a handle that is written later belongs to the call that asked for it") {
    NcclCommunicators communicators;
    SECTION("when its record comes after that of the call") {
        CHECK_FALSE(take(communicators, make, makes(0, 8, 3, 500)));
        communicators.on_words(words(FUNC_WORDS_AWAITED, 0x10, 510, {0xc}));
        CHECK(shown_of(communicators, 0xc).rank == "3");
    }
    SECTION("and when it comes before, also together with that of a later call") {
        communicators.on_words(words(FUNC_WORDS_AWAITED, 0x10, 510, {0xc}));
        communicators.on_words(words(FUNC_WORDS_AWAITED, 0x10, 610, {0xd}));
        CHECK_FALSE(take(communicators, make, makes(0, 8, 3, 500)));
        CHECK_FALSE(take(communicators, make, makes(0, 8, 4, 600)));
        CHECK(shown_of(communicators, 0xc).rank == "3");
        CHECK(shown_of(communicators, 0xd).rank == "4");
    }
    SECTION("but not one of an earlier call") {
        communicators.on_words(words(FUNC_WORDS_AWAITED, 0x10, 490, {0xc}));
        CHECK_FALSE(take(communicators, make, makes(0, 8, 3, 500)));
        CHECK(shown_of(communicators, 0xc).rank == "unknown");
    }
}

TEST_CASE("a part has the rank that color and key give, once all ranks of the parent are seen") {
    NcclCommunicators communicators;
    NcclSplits all;
    const auto begin = [&](std::uint64_t handle, std::int32_t color, std::int32_t key) {
        communicators.on_begin(split, splits(handle, color, key, 0), all);
    };
    for (std::uint64_t rank = 0; rank < 4; rank++) {
        CHECK_FALSE(take(communicators, make, makes(0xa0 + rank, 4, rank)));
    }
    begin(0xa0, 1, 5);
    begin(0xa1, 2, 0);
    begin(0xa2, 1, 5);
    CHECK_FALSE(take(communicators, split, splits(0xa0, 1, 5, 0xb0), all));
    CHECK(shown_of(communicators, 0xb0).rank == "unknown");
    begin(0xa3, 1, -1);
    CHECK_FALSE(take(communicators, split, splits(0xa2, 1, 5, 0xb2), all));
    CHECK_FALSE(take(communicators, split, splits(0xa1, 2, 0, 0xb1), all));
    CHECK_FALSE(take(communicators, split, splits(0xa3, 1, -1, 0xb3), all));
    const auto of = [&](std::uint64_t handle) {
        return take(communicators, all_reduce, call({0x1, 0x2, 1, 7, 0, handle}), all)->operation;
    };
    const std::string name = shown(split_hash(0xabcd'0123ULL << 32, 1, 1));
    CHECK(of(0xb0) == NcclOperation{"float32", "sum", name, "1", "3"});
    CHECK(of(0xb2) == NcclOperation{"float32", "sum", name, "2", "3"});
    CHECK(of(0xb3) == NcclOperation{"float32", "sum", name, "0", "3"});
    CHECK(of(0xb1) ==
          NcclOperation{"float32", "sum", shown(split_hash(0xabcd'0123ULL << 32, 1, 2)), "0", "1"});
    SECTION("and none without a color") {
        CHECK_FALSE(take(communicators, split, splits(0xa0, -1, 0, 0xc0), all));
        CHECK(of(0xc0).communicator == "unknown");
    }
}

TEST_CASE("the program's own question gives a rank that was not known") {
    NcclCommunicators communicators;
    const auto answer = [&](const char *function, std::uint64_t handle, std::uint64_t value) {
        auto record = call({handle, 0x30});
        record.pointed = 0xffff'0000'0000 | value;
        record.has_pointed = 1;
        CHECK_FALSE(take(communicators, *nccl_function(function), record));
    };
    answer("ncclCommUserRank", 0xc, 5);
    CHECK(shown_of(communicators, 0xc) ==
          NcclOperation{"float32", "sum", "unknown", "5", "unknown"});
    answer("ncclCommCount", 0xc, 16);
    CHECK(shown_of(communicators, 0xc) == NcclOperation{"float32", "sum", "unknown", "5", "16"});
}

TEST_CASE("a shrunk communicator has the ranks that are left, in their order") {
    NcclCommunicators communicators;
    CHECK_FALSE(take(communicators, make, makes(0xc, 8, 5)));
    auto record = call({0xc, 0x40, 3, 0x50}, 900);
    record.pointed = 0xd;
    record.has_pointed = 1;
    const std::int32_t excluded[] = {7, 0, 3};
    SECTION("of a list that was read") {
        communicators.on_words(words(FUNC_WORDS_ARRAY, 0x40, 900, {7, 3}));
        CHECK_FALSE(take(communicators, *nccl_function("ncclCommShrink"), record));
        CHECK(shown_of(communicators, 0xd) ==
              NcclOperation{"float32", "sum", shown(shrink_hash(0xabcd'0123ULL << 32, 1, excluded)),
                            "3", "5"});
    }
    SECTION("or unknown ones") {
        CHECK_FALSE(take(communicators, *nccl_function("ncclCommShrink"), record));
        CHECK(shown_of(communicators, 0xd).rank == "unknown");
    }
    SECTION("also of a list that cannot be") {
        communicators.on_words(words(FUNC_WORDS_ARRAY, 0x40, 900, {0, 0}));
        CHECK_FALSE(take(communicators, make, makes(0xc, 8, 1)));
        CHECK_FALSE(take(communicators, *nccl_function("ncclCommShrink"), record));
        CHECK(shown_of(communicators, 0xd).rank == "unknown");
    }
}

TEST_CASE("communicators of one thread with all ranks have a name of their own") {
    NcclCommunicators communicators;
    const auto init_all = *nccl_function("ncclCommInitAll");
    communicators.on_words(words(FUNC_WORDS_ARRAY, 0x40, 900, {0xa, 0xb}));
    CHECK_FALSE(take(communicators, init_all, call({0x40, 2}, 900)));
    communicators.on_words(words(FUNC_WORDS_ARRAY, 0x40, 950, {0xc}));
    CHECK_FALSE(take(communicators, init_all, call({0x40, 1}, 950)));
    CHECK(shown_of(communicators, 0xa).rank == "0");
    CHECK(shown_of(communicators, 0xb).rank == "1");
    CHECK(shown_of(communicators, 0xb).nranks == "2");
    CHECK(shown_of(communicators, 0xa).communicator == shown_of(communicators, 0xb).communicator);
    CHECK(shown_of(communicators, 0xa).communicator != shown_of(communicators, 0xc).communicator);
}

TEST_CASE("the sequence counts collective operations, as all ranks make the same") {
    NcclCommunicators communicators;
    CHECK_FALSE(take(communicators, make, makes(0xc, 8, 3)));
    const auto member = [&] { return communicators.members().at(0xc); };
    CHECK(member().sequence == 0);
    CHECK(member().moved_ns == 500);
    shown_of(communicators, 0xc);
    CHECK(take(communicators, *nccl_function("ncclSend"), call({0x1, 3, 4, 0, 0xc}, 2'000)));
    CHECK(member().sequence == 1);
    CHECK(member().moved_ns == 1'000);
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
    const auto sent = take(communicators, *nccl_function("ncclSend"), call({0x1, 3, 4, 0, 0xc}));
    REQUIRE(sent);
    CHECK(sent->operation.op.empty());
    CHECK(sent->bytes == 24);
}

TEST_CASE("a process that makes communicators without end does not fill the exporter's memory") {
    NcclCommunicators communicators;
    for (std::uint64_t handle = 1; handle <= 10'000; handle++) {
        CHECK_FALSE(take(communicators, make, makes(handle, 2, 1)));
    }
    CHECK(all_reduced(communicators, 1).operation.rank == "1");
    CHECK(all_reduced(communicators, 10'000).operation.rank == "unknown");
}
