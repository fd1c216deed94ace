#include "exporter/system/sleeper.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <system_error>

namespace gpusnoop {

Sleeper::Sleeper() : woken_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!woken_) {
        throw std::system_error(errno, std::generic_category(), "make an eventfd");
    }
    watch(woken_.get());
}

void Sleeper::wake() const {
    const std::uint64_t one = 1;
    (void)!::write(woken_.get(), &one, sizeof(one));
}

void Sleeper::sleep(Clock::time_point earliest, Clock::time_point until) {
    const auto deaf_until = std::min(earliest, until);
    if (deaf_until > Clock::now() && !wait(deaf_until, 1)) {
        return;
    }
    if (earliest < until) {
        (void)wait(until, descriptors_.size());
    }
}

bool Sleeper::wait(Clock::time_point until, std::size_t descriptors) {
    const auto left = std::max(until - Clock::now(), Clock::duration::zero());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec most{seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
    pollfd &woken = descriptors_.front();
    woken.revents = 0;
    (void)::ppoll(descriptors_.data(), descriptors, &most, nullptr);
    if (woken.revents == 0) {
        return true;
    }
    std::uint64_t times = 0;
    (void)!::read(woken_.get(), &times, sizeof(times));
    return false;
}

}  // namespace gpusnoop
