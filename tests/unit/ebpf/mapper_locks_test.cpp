#include "exporter/ebpf/attach/mapper_locks.h"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <vector>

using namespace gpusnoop;
using ebpf::held_throughout;
using ebpf::HeldLock;

namespace {

using Looks = std::vector<std::vector<HeldLock>>;

// What is held in all of these looks.
std::optional<HeldLock> held_in(const Looks &looks) {
    std::size_t at = 0;
    return held_throughout([&]() -> Result<std::vector<HeldLock>> { return looks.at(at++); },
                           static_cast<int>(looks.size()));
}

}  // namespace

TEST_CASE("a lock counts as kept if it was not seen free") {
    const HeldLock one{1, 100, 10};
    const HeldLock two{2, 200, 20};
    CHECK(held_in({{one}, {one}, {one}}) == one);
    CHECK(held_in({{two, one}, {one}, {one, two}}) == one);
    CHECK_FALSE(held_in({{}, {one}, {one}}));
    CHECK_FALSE(held_in({{one}, {one}, {}}));
    CHECK_FALSE(held_in({{one}, {two}, {one}}));
}

TEST_CASE("a lock that another thread has meanwhile was free in between") {
    CHECK_FALSE(held_in({{{1, 100, 10}}, {{1, 101, 10}}}));
    // Readers can follow each other without a gap.
    CHECK(held_in({{{1, 0, 10}}, {{1, 0, 10}}}) == HeldLock{1, 0, 10});
}

TEST_CASE("locks are looked at no longer than the answer may change") {
    int looks = 0;
    CHECK_FALSE(held_throughout(
        [&]() -> Result<std::vector<HeldLock>> {
            looks++;
            return {};
        },
        20));
    CHECK(looks == 1);
    CHECK_FALSE(held_throughout([]() -> Result<std::vector<HeldLock>> { return fail("no"); }, 20));
    CHECK_FALSE(ebpf::process_that_locks({}));  // a file whose address is not known
}
