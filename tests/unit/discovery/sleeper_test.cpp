#include "exporter/discovery/sleeper.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <thread>

using namespace gpusnoop;
using namespace std::chrono_literals;
using discovery::Sleeper;

namespace {

constexpr auto never = 1h;

void make_readable(const Fd &event) {
    const std::uint64_t one = 1;
    REQUIRE(::write(event.get(), &one, sizeof(one)) == sizeof(one));
}

}  // namespace

TEST_CASE("discovery's sleep ends when it is woken, also before it began") {
    auto sleeper = Sleeper::open();
    REQUIRE(sleeper);
    sleeper->wake();
    sleeper->sleep(Sleeper::Clock::now() + never, Sleeper::Clock::now() + never, -1);
    const std::jthread waker([&] { sleeper->wake(); });
    sleeper->sleep(Sleeper::Clock::now() + never, Sleeper::Clock::now() + never, -1);
}

TEST_CASE("discovery's sleep ends at news, and not earlier than it may") {
    auto sleeper = Sleeper::open();
    REQUIRE(sleeper);
    const Fd news(::eventfd(0, EFD_CLOEXEC));
    make_readable(news);
    const auto earliest = Sleeper::Clock::now() + 30ms;
    sleeper->sleep(earliest, Sleeper::Clock::now() + never, news.get());
    CHECK(Sleeper::Clock::now() >= earliest);
}

TEST_CASE("discovery's sleep without news ends at its time") {
    auto sleeper = Sleeper::open();
    REQUIRE(sleeper);
    const Fd news(::eventfd(0, EFD_CLOEXEC));
    const auto until = Sleeper::Clock::now() + 5ms;
    sleeper->sleep(Sleeper::Clock::now(), until, news.get());
    CHECK(Sleeper::Clock::now() >= until);
}
