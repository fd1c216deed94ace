// The names of one process's kernels.
#include "exporter/probes/cuda/launches/kernel_names.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

std::string found(KernelNames &names, std::uint64_t kernel) {
    const auto [known, request] = names.find(kernel);
    return known != nullptr ? *known : "waiting";
}

// The request for a kernel that nobody has asked for.
KernelNames::Request asked(KernelNames &names, std::uint64_t kernel) {
    const auto [known, request] = names.find(kernel);
    REQUIRE(request);
    return *request;
}

}  // namespace

TEST_CASE("a kernel that nobody named is asked for once, until it is found") {
    KernelNames names;
    const auto request = asked(names, 0x10);
    CHECK(request.key == 0x10);
    CHECK_FALSE(names.find(0x10).request);
    CHECK(names.is_waiting());
    CHECK(names.on_found(request, "gemm"));
    CHECK_FALSE(names.is_waiting());
    CHECK(found(names, 0x10) == "gemm");
    CHECK_FALSE(names.on_found(request, "too late"));
    CHECK(found(names, 0x10) == "gemm");
}

TEST_CASE("a handle has the name of what it stands for") {
    KernelNames names;
    names.set_meaning(0x20, 0x10, 1);
    names.set_meaning(0x30, 0x20, 1);
    CHECK(asked(names, 0x30).key == 0x10);
    CHECK_FALSE(names.set_name(0x10, "gemm", 2));  // nobody asked for this one
    CHECK(found(names, 0x20) == "gemm");
    CHECK(found(names, 0x30) == "gemm");
}

TEST_CASE("names that take too long are given up, and no others") {
    KernelNames names;
    (void)names.find(0x10);
    CHECK_FALSE(names.give_up(1s, 10s));
    (void)names.find(0x20);
    CHECK_FALSE(names.give_up(3s, 10s));
    CHECK_FALSE(names.give_up(10'999ms, 10s));
    CHECK(names.give_up(11s, 10s));
    CHECK(found(names, 0x10).empty());
    CHECK(found(names, 0x20) == "waiting");
    CHECK(names.is_waiting());
}

TEST_CASE("a name that comes after it was given up is the kernel's from then on") {
    KernelNames names;
    const auto request = asked(names, 0x10);
    (void)names.give_up(1s, 10s);
    REQUIRE(names.give_up(11s, 10s));
    const std::uint64_t before = names.renames();
    CHECK_FALSE(names.on_found(request, "gemm"));  // no launches wait for it
    CHECK(found(names, 0x10) == "gemm");
    CHECK(names.was_renamed_since(0x10, before));
    CHECK_FALSE(names.former_name(0x10, 0));  // also for launches that are in a ring
}

TEST_CASE("the time in which nobody read the answers is none in which they did not come") {
    KernelNames names;
    const auto request = asked(names, 0x10);
    CHECK_FALSE(names.give_up(3'600s, 10s));
    CHECK(names.on_found(request, "gemm"));
    CHECK(found(names, 0x10) == "gemm");
}

TEST_CASE("a name that is not found is asked for again, a few times and ever more rarely") {
    KernelNames names;
    names.set_meaning(0x20, 0x10, 1);
    auto request = asked(names, 0x20);
    CHECK(names.on_found(request, ""));
    CHECK(found(names, 0x20).empty());
    std::vector<std::chrono::seconds> times;
    for (std::chrono::seconds now = 0s; now < 24h; now += 1s) {
        for (const auto &again : names.ask_again(now)) {
            CHECK(again == request);
            CHECK_FALSE(names.on_found(again, ""));
            times.push_back(now);
        }
    }
    CHECK(times == std::vector<std::chrono::seconds>{120s, 361s, 842s, 1803s, 3724s});
}

TEST_CASE("a name that is found at another request is the kernel's from then on") {
    KernelNames names;
    (void)names.on_found(asked(names, 0x10), "");
    CHECK(names.ask_again(0s).empty());
    const auto again = names.ask_again(120s);
    REQUIRE(again.size() == 1);
    CHECK(found(names, 0x10).empty());  // meanwhile
    CHECK_FALSE(names.is_waiting());
    CHECK(names.ask_again(240s).empty());  // asked already
    (void)names.on_found(again[0], "gemm");
    CHECK(found(names, 0x10) == "gemm");
    CHECK(names.ask_again(24h).empty());
}

TEST_CASE("an answer is not for the kernel that has the handle by now") {
    KernelNames names;
    names.set_meaning(0x20, 0x10, 1);
    const auto request = asked(names, 0x20);
    (void)names.give_up(1s, 10s);
    (void)names.give_up(11s, 10s);
    names.set_meaning(0x20, 0x30, 2);
    const auto other = asked(names, 0x20);
    CHECK(other.key == 0x30);
    CHECK_FALSE(names.on_found(request, "former"));
    CHECK(found(names, 0x20) == "waiting");
    CHECK(names.on_found(other, "present"));
    CHECK(found(names, 0x20) == "present");
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

TEST_CASE("a name that was told stays when the kernel is learned to stand for one without a name") {
    KernelNames names;
    (void)names.set_name(0x20, "gemm", 1);
    names.set_meaning(0x20, 0x10, 2);
    (void)names.on_found(asked(names, 0x20), "");
    CHECK(found(names, 0x20) == "gemm");
    (void)names.on_found(asked(names, 0x10), "");
    names.set_meaning(0x20, 0x10, 3);
    CHECK(found(names, 0x20) == "gemm");
    // One that was asked for does not: the handle is of another kernel now.
    const auto request = asked(names, 0x30);
    (void)names.on_found(request, "reduce");
    names.set_meaning(0x30, 0x11, 3);
    (void)names.on_found(asked(names, 0x30), "");
    CHECK(found(names, 0x30).empty());
}

TEST_CASE("kernels without a name are counted, and one that is learned has its name for all") {
    KernelNames names;
    (void)names.on_found(asked(names, 0x20), "");
    (void)names.give_up(1s, 10s);
    CHECK(names.unknown() == 1);
    names.set_meaning(0x20, 0x10, 5);
    (void)names.on_found(asked(names, 0x10), "gemm");
    (void)names.give_up(2s, 10s);
    CHECK(names.unknown() == 0);
    CHECK(found(names, 0x20) == "gemm");
    // Also for launches from before: they were counted in one entry of the table.
    CHECK_FALSE(names.former_name(0x20, 1));
}
