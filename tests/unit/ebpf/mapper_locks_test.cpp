// The names by which libraries are found.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <vector>

#include "exporter/ebpf/attach/mapper_locks.h"
#include "exporter/ebpf/mappings/mapping_list.h"

using gpusnoop::ebpf::mapped_name;
using namespace gpusnoop;
using ebpf::held_throughout;
using ebpf::HeldLock;

TEST_CASE("a mapped file has the last part of its path as its name") {
    CHECK(mapped_name("/usr/lib/libcudart.so.12") == "libcudart.so.12");
    CHECK(mapped_name("libcudart.so.12") == "libcudart.so.12");
    CHECK(mapped_name("") == "");
    CHECK(mapped_name("/") == "");
    CHECK(mapped_name("/tmp/libjvm.so (deleted)") == "libjvm.so");
    CHECK(mapped_name("/tmp/a (deleted)/libjvm.so") == "libjvm.so");
}

TEST_CASE("a file in memory has the name that the program gave it") {
    CHECK(mapped_name("/memfd:libnccl.so.2 (deleted)") == "libnccl.so.2");
    CHECK(mapped_name("memfd:libnccl.so.2") == "libnccl.so.2");
    CHECK(mapped_name("/memfd:/opt/lib/libnccl.so.2 (deleted)") == "libnccl.so.2");
    CHECK(mapped_name("memfd:/opt/lib/libnccl.so.2") == "libnccl.so.2");
    CHECK(mapped_name("/memfd: (deleted)") == "");
    CHECK(mapped_name("memfd") == "memfd");
}

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
