#include "exporter/ebpf/handover.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "exporter/base/fd.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

struct HandoverPipe {
    HandoverPipe() {
        std::array<int, 2> ends{};
        REQUIRE(::pipe(ends.data()) == 0);
        to_read = Fd(ends[0]);
        to_write = Fd(ends[1]);
    }
    Fd to_read;
    Fd to_write;
};

Fd perf_event_of_this_process() {
    perf_event_attr attr{};
    attr.size = sizeof(attr);
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_DUMMY;
    attr.exclude_kernel = 1;
    return Fd(static_cast<int>(::syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0)));
}

}  // namespace

TEST_CASE("a helper process inherits the perf events, if there are any, and nothing else",
          "[handover]") {
    for (const bool has_event : {true, false}) {
        CAPTURE(has_event);
        const Fd event = has_event ? perf_event_of_this_process() : Fd();
        if (has_event && !event) {
            SKIP("this user may open no perf events");
        }
        HandoverPipe held;
        HandoverPipe go;
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            ::alarm(60);
            ebpf::hand_over_perf_events(0);
            held.to_write.reset();
            char byte = 0;
            (void)!::read(go.to_read.get(), &byte, 1);
            ::_exit(::waitpid(-1, nullptr, WNOHANG) == 0 ? 1 : 0);
        }
        held.to_write.reset();
        char byte = 0;
        CHECK(::read(held.to_read.get(), &byte, 1) == 0);  // the helper has closed its copy
        REQUIRE(::write(go.to_write.get(), &byte, 1) == 1);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == (has_event ? 1 : 0));
    }
}

TEST_CASE("a program that hangs while it ends, ends", "[handover]") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::alarm(60);  // without the limit, this ends it by a signal
        const ebpf::Handover ending(1ms, 20ms);
        for (;;) {
            ::pause();
        }
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a program that ends in time runs to its own exit", "[handover]") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        {
            const ebpf::Handover ending(1h, 2h);
        }
        ::_exit(7);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
}
