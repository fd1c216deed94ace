// The names of one process's kernels.
#include "exporter/probes/cuda/launches/kernel_names.h"

#include <catch2/catch_test_macros.hpp>

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

std::string found(KernelNames &names, std::uint64_t kernel) {
    const auto [known, to_ask_for] = names.find(kernel, 1s);
    return known != nullptr ? *known : "waiting";
}

}  // namespace

TEST_CASE("a kernel that nobody named is asked for once, until it is found") {
    KernelNames names;
    CHECK(names.find(0x10, 1s).to_ask_for == 0x10);
    CHECK_FALSE(names.find(0x10, 2s).to_ask_for);
    CHECK(names.is_waiting());
    CHECK(names.on_found(0x10, "gemm"));
    CHECK_FALSE(names.is_waiting());
    CHECK(found(names, 0x10) == "gemm");
    CHECK_FALSE(names.on_found(0x10, "too late"));
    CHECK(found(names, 0x10) == "gemm");
}

TEST_CASE("a handle has the name of what it stands for") {
    KernelNames names;
    names.set_meaning(0x20, 0x10, 1);
    names.set_meaning(0x30, 0x20, 1);
    CHECK(names.find(0x30, 1s).to_ask_for == 0x10);
    CHECK_FALSE(names.set_name(0x10, "gemm", 2));  // nobody asked for this one
    CHECK(found(names, 0x20) == "gemm");
    CHECK(found(names, 0x30) == "gemm");
}

TEST_CASE("names that take too long are given up, and no others") {
    KernelNames names;
    (void)names.find(0x10, 1s);
    (void)names.find(0x20, 3s);
    CHECK_FALSE(names.give_up(999ms));
    CHECK(names.give_up(2s));
    CHECK(found(names, 0x10).empty());
    CHECK(found(names, 0x20) == "waiting");
    CHECK(names.is_waiting());
}

TEST_CASE("a renamed kernel had its former names until the times of the renames") {
    KernelNames names;
    (void)names.set_name(0x10, "first", 100);
    CHECK(names.renames() == 0);
    CHECK_FALSE(names.former_name(0x10, 50));
    (void)names.set_name(0x10, "second", 200);
    (void)names.set_name(0x20, "other", 250);
    (void)names.set_name(0x10, "third", 300);
    CHECK(names.renames() == 2);
    REQUIRE(names.former_name(0x10, 199));
    CHECK(*names.former_name(0x10, 199) == "first");
    CHECK(*names.former_name(0x10, 200) == "second");
    CHECK_FALSE(names.former_name(0x10, 300));
    CHECK_FALSE(names.former_name(0x20, 1));
    CHECK_FALSE(names.former_name(0x99, 1));
    CHECK(names.was_renamed_since(0x10, 1));
    CHECK_FALSE(names.was_renamed_since(0x10, 2));
    CHECK_FALSE(names.was_renamed_since(0x20, 0));
    CHECK(found(names, 0x10) == "third");
}

TEST_CASE("of endless names of one kernel the latest are remembered") {
    KernelNames names;
    for (std::uint64_t i = 0; i < 1'000; i++) {
        (void)names.set_name(0x10, "name" + std::to_string(i), i);
    }
    REQUIRE(names.former_name(0x10, 0));
    CHECK(*names.former_name(0x10, 0) == "name983");
    CHECK(found(names, 0x10) == "name999");
}

TEST_CASE("what has no room among the kernels of a process is one other kernel") {
    KernelNames names;
    for (std::uint64_t i = 1; i <= max_kernels; i++) {
        (void)names.set_name(i, "k", 1);
    }
    CHECK(names.has_room_for(1));
    CHECK_FALSE(names.has_room_for(max_kernels + 1));
    CHECK_FALSE(names.set_name(max_kernels + 1, "k", 1));
    names.set_meaning(max_kernels + 1, 1, 1);
    CHECK_FALSE(names.contains(max_kernels + 1));
    CHECK(found(names, surplus_kernel) == "other");
}
