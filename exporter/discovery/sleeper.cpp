#include "exporter/discovery/sleeper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <utility>

namespace gpusnoop::discovery {

Result<Sleeper> Sleeper::open() {
    Fd woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!woken) {
        return fail_errno("make an eventfd");
    }
    return Sleeper(std::move(woken));
}

void Sleeper::wake() const {
    const std::uint64_t one = 1;
    (void)!::write(woken_.get(), &one, sizeof(one));
}

void Sleeper::sleep(Clock::time_point earliest, Clock::time_point until, int news) {
    if (wait(std::min(earliest, until), -1)) {
        (void)wait(until, news);
    }
}

bool Sleeper::wait(Clock::time_point until, int news) {
    const auto left = std::max(until - Clock::now(), Clock::duration::zero());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec most{seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
    std::array<pollfd, 2> descriptors{{{woken_.get(), POLLIN, 0}, {news, POLLIN, 0}}};
    (void)::ppoll(descriptors.data(), descriptors.size(), &most, nullptr);
    if (descriptors[0].revents == 0) {
        return true;
    }
    std::uint64_t times = 0;
    (void)!::read(woken_.get(), &times, sizeof(times));
    return false;
}

}  // namespace gpusnoop::discovery
