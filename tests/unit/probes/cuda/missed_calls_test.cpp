// Whether a process may have made calls before the probes of its files were active.
#include "exporter/probes/cuda/attach/missed_calls.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>

#include "exporter/system/machine.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr FileId runtime{1, 1, 0, 0};
constexpr FileId other_runtime{2, 1, 0, 0};
constexpr FileId driver{3, 1, 0, 0};
constexpr FileId other_driver{4, 1, 0, 0};
constexpr FileId program{5, 1, 0, 0};

std::chrono::nanoseconds now() {
    return now_on(CLOCK_MONOTONIC);
}

// A process that began long before all else here.
struct User {
    std::uint32_t tgid = 1'000'000'000;
    std::chrono::nanoseconds started = 1s;
    std::uint64_t execs = 1;

    [[nodiscard]] ebpf::Mapping maps(const FileId &file, const std::string &name,
                                     bool is_program = false) const {
        return {.tgid = tgid,
                .tid = tgid,
                .start = 0,
                .end = 0,
                .file_offset = 0,
                .file = file,
                .is_program = is_program,
                .name = name,
                .started = started,
                .execs = execs};
    }
};

bool by(const MissedCalls &missed, const User &user, bool calls_driver = false) {
    return missed.by({.tgid = user.tgid, .started = user.started, .calls_driver = calls_driver});
}

bool by_unknown(const MissedCalls &missed, std::chrono::nanoseconds started) {
    return missed.by({.tgid = 2, .started = started});
}

// Of a process that maps the runtime: a child may have made calls before the probes of `file` were
// active if it was forked before that, and not if it was forked after.
void check_forked_around_attaching_to(const FileId &file, bool is_driver) {
    MissedCalls missed;
    const User parent;
    missed.used(parent.maps(runtime, "libcudart.so.12"), now());
    const auto before = now_on(CLOCK_BOOTTIME);
    missed.attached(file, is_driver);
    const auto after = now_on(CLOCK_BOOTTIME);
    const auto by_child = [&](std::chrono::nanoseconds forked) {
        return missed.by(
            {.tgid = 2, .started = forked, .ppid = parent.tgid, .calls_driver = is_driver});
    };
    CHECK(by_child(before));
    CHECK_FALSE(by_child(after));
}

}  // namespace

TEST_CASE("of a process that maps more and more files, calls may be missed") {
    MissedCalls missed;
    const User user;
    for (std::uint64_t file = 1; file <= MissedCalls::max_files_of_process; file++) {
        missed.attached({file, 1, 0, 0}, false);
        missed.used(user.maps({file, 1, 0, 0}, "libcudart.so.12"), now());
    }
    missed.used(user.maps({1, 1, 0, 0}, "libcudart.so.12"), now());
    CHECK_FALSE(by(missed, user));
    const FileId next{MissedCalls::max_files_of_process + 1, 1, 0, 0};
    missed.attached(next, false);
    const auto version = missed.version();
    missed.used(user.maps(next, "libcudart.so.12"), now());
    CHECK(by(missed, user));
    CHECK(missed.version() > version);
}

TEST_CASE("calls may be missed of a file that was mapped before its probes were active") {
    MissedCalls missed;
    const User before, after{.tgid = 2};
    missed.used(before.maps(runtime, "libcudart.so.12"), now());
    CHECK(by(missed, before));  // nothing is attached yet
    missed.attached(runtime, false);
    missed.used(after.maps(runtime, "libcudart.so.12"), now());
    CHECK(by(missed, before));
    CHECK_FALSE(by(missed, after));  // although the process began before
}

TEST_CASE("another file's probes do not matter") {
    MissedCalls missed;
    const User one;
    missed.attached(runtime, false);
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    missed.attached(other_runtime, false);
    CHECK_FALSE(by(missed, one));
}

TEST_CASE("the first mapping counts, whatever comes later") {
    MissedCalls missed;
    const User one;
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    missed.attached(runtime, false);
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    missed.used(one.maps(runtime, "libcudart.so.12"));
    CHECK(by(missed, one));
}

TEST_CASE("a mapping of unknown age is as old as its process") {
    MissedCalls missed;
    missed.attached(runtime, false);
    const User old, young{.tgid = 2, .started = now_on(CLOCK_BOOTTIME)};
    for (const User &one : {old, young}) {
        missed.used(one.maps(runtime, "libcudart.so.12"));
    }
    CHECK(by(missed, old));
    CHECK_FALSE(by(missed, young));
}

TEST_CASE("an exec and a reused process id map their files newly") {
    MissedCalls missed;
    User one;
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    missed.attached(runtime, false);
    const User reused{.started = 5s};
    const User replaced{.execs = 2};
    for (const User &next : {reused, replaced}) {
        missed.used(next.maps(runtime, "libcudart.so.12"), now());
        CHECK_FALSE(by(missed, next));
    }
}

TEST_CASE("where the driver's calls are seen, no runtime's call is missed") {
    MissedCalls missed;
    missed.attached(driver, true);
    const User one, two{.tgid = 2};
    for (const User &user : {one, two}) {
        missed.used(user.maps(runtime, "libcudart.so.12"), now());
    }
    missed.used(one.maps(driver, "libcuda.so.1"), now());
    missed.attached(runtime, false);
    CHECK_FALSE(by(missed, one));
    CHECK(by(missed, two));  // its driver is not known yet
    missed.used(two.maps(other_driver, "libcuda.so.550.1"), now());
    CHECK(by(missed, two));  // and that one's probes are not active
}

TEST_CASE("calls to the driver say that its probes see them, before its mapping is known") {
    MissedCalls missed;
    const User one;
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    CHECK(by(missed, one, true));  // to a driver that nothing is known of
    missed.attached(driver, true);
    CHECK(by(missed, one, true));  // it may have been mapped before its probes were active
    const User two{.tgid = 2};
    missed.used(two.maps(runtime, "libcudart.so.12"), now());
    CHECK_FALSE(by(missed, two, true));
    CHECK(by(missed, two));  // it has made no calls, or to another driver
    missed.attached(runtime, false);
    CHECK_FALSE(by(missed, two, true));
    // Its mapping has the last word.
    missed.used(two.maps(other_driver, "libcuda.so.1"), now());
    CHECK(by(missed, two, true));
}

TEST_CASE("calls to one of several drivers say nothing if one was attached to late") {
    MissedCalls missed;
    const User one, two{.tgid = 2};
    missed.attached(driver, true);
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    missed.attached(other_driver, true);
    missed.used(two.maps(runtime, "libcudart.so.12"), now());
    CHECK(by(missed, one, true));
    CHECK_FALSE(by(missed, two, true));
}

TEST_CASE("a forked process's calls to the driver say that its probes see them") {
    check_forked_around_attaching_to(driver, true);
}

TEST_CASE("a file without functions of CUDA misses no calls") {
    MissedCalls missed;
    const User one;
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    missed.used(one.maps(program, "python3", true), now());
    CHECK(by(missed, one));
    missed.has_no_functions(runtime);
    CHECK_FALSE(by(missed, one));
    missed.attached(program, false);  // it had the runtime linked in
    CHECK(by(missed, one));
}

TEST_CASE("probes that an earlier exporter left missed nothing") {
    MissedCalls missed;
    const User one;
    missed.used(one.maps(runtime, "libcudart.so.12"));
    missed.adopted(runtime, false);
    CHECK_FALSE(by(missed, one));
}

TEST_CASE("calls are missed again once a file is detached from") {
    MissedCalls missed;
    const User one;
    missed.attached(runtime, false);
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    CHECK_FALSE(by(missed, one));
    missed.detached(runtime);  // overwritten in place
    CHECK(by(missed, one));
    missed.attached(runtime, false);
    CHECK(by(missed, one));
}

TEST_CASE("a forked process has its parent's mappings from its start on") {
    check_forked_around_attaching_to(runtime, false);
}

TEST_CASE("of a process without known mappings, every file may be one") {
    MissedCalls missed;
    CHECK_FALSE(by_unknown(missed, 1s));
    missed.attached(runtime, false);
    CHECK(by_unknown(missed, 1s));
    CHECK(by_unknown(missed, 0s));  // the start is unknown, too
    CHECK_FALSE(by_unknown(missed, now_on(CLOCK_BOOTTIME) + 1s));
}

TEST_CASE("processes that have ended are forgotten") {
    MissedCalls missed;
    missed.attached(runtime, false);
    // No such process exists, so each is forgotten when there are many.
    for (std::uint32_t tgid = 1'000'000'000; tgid < 1'000'005'000; tgid++) {
        missed.used(User{.tgid = tgid}.maps(driver, "libcuda.so.1"), now());
    }
    CHECK(missed.users() < 2'000);
}

TEST_CASE("the version changes with the answers") {
    MissedCalls missed;
    const User one;
    std::uint64_t last = missed.version();
    const auto changes = [&] { return std::exchange(last, missed.version()) != last; };
    missed.used(one.maps(runtime, "libcudart.so.12"), now());
    CHECK(changes());
    missed.used(one.maps(runtime, "libcudart.so.12"));
    CHECK_FALSE(changes());
    missed.attached(runtime, false);
    CHECK(changes());
    missed.detached(runtime);
    CHECK(changes());
}

TEST_CASE("what was incomplete for an earlier exporter stays so, and is handed on") {
    MissedCalls earlier;
    const User before, after{.tgid = 2};
    earlier.used(before.maps(runtime, "libcudart.so.12"), now());
    earlier.attached(runtime, false);
    earlier.used(after.maps(runtime, "libcudart.so.12"), now());
    const auto handed_on = earlier.incomplete();
    CHECK(handed_on.size() == 1);

    MissedCalls later;
    later.were_incomplete(handed_on);
    later.adopted(runtime, false);
    for (const User &one : {before, after}) {
        later.used(one.maps(runtime, "libcudart.so.12"));
    }
    CHECK(by(later, before));
    CHECK_FALSE(by(later, after));
    CHECK(later.incomplete() == handed_on);
    const User replaced{.execs = 2};
    later.used(replaced.maps(runtime, "libcudart.so.12"));
    CHECK_FALSE(by(later, replaced));
}
