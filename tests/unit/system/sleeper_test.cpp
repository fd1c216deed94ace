#include "exporter/system/sleeper.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <thread>

#include "exporter/base/fd.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

constexpr auto never = 1h;

void make_readable(const Fd &event) {
    const std::uint64_t one = 1;
    REQUIRE(::write(event.get(), &one, sizeof(one)) == sizeof(one));
}

}  // namespace

TEST_CASE("a sleep ends when it is woken, also before it began") {
    Sleeper sleeper;
    const Fd readable(::eventfd(0, EFD_CLOEXEC));
    make_readable(readable);
    sleeper.watch(readable.get());
    sleeper.wake();
    sleeper.sleep(Sleeper::Clock::now() + never, Sleeper::Clock::now() + never);
    const std::jthread waker([&] { sleeper.wake(); });
    sleeper.sleep(Sleeper::Clock::now() + never, Sleeper::Clock::now() + never);
}

TEST_CASE("a sleep ends at what one of the watched descriptors has, and not earlier than it may") {
    Sleeper sleeper;
    const Fd silent(::eventfd(0, EFD_CLOEXEC));
    const Fd readable(::eventfd(0, EFD_CLOEXEC));
    sleeper.watch(silent.get());
    sleeper.watch(readable.get());
    make_readable(readable);
    const auto earliest = Sleeper::Clock::now() + 30ms;
    sleeper.sleep(earliest, Sleeper::Clock::now() + never);
    CHECK(Sleeper::Clock::now() >= earliest);
    sleeper.sleep(earliest, Sleeper::Clock::now() + never);  // nobody has read it
}

TEST_CASE("a sleep that nothing ends does so at its time") {
    Sleeper sleeper;
    const Fd silent(::eventfd(0, EFD_CLOEXEC));
    sleeper.watch(silent.get());
    const auto until = Sleeper::Clock::now() + 5ms;
    sleeper.sleep(Sleeper::Clock::now(), until);
    CHECK(Sleeper::Clock::now() >= until);
}
