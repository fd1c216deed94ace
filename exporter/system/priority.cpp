#include "exporter/system/priority.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gpusnoop {

void allow_niceness(int niceness) {
    const auto wanted = static_cast<rlim_t>(20 - niceness);
    rlimit limit{};
    if (::getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit = {wanted, std::max(limit.rlim_max, wanted)};
        (void)::setrlimit(RLIMIT_NICE, &limit);
    }
}

bool prefer_this_thread(int niceness) {
    // On Linux, these two apply to the calling thread, not to its process.
    errno = 0;
    const int now = ::getpriority(PRIO_PROCESS, 0);
    if (errno == 0 && now <= niceness) {
        return true;
    }
    return ::setpriority(PRIO_PROCESS, 0, niceness) == 0;
}

Preferred::Preferred(int niceness) : before_(::getpriority(PRIO_PROCESS, 0)) {
    (void)prefer_this_thread(niceness);
}

Preferred::~Preferred() {
    (void)::setpriority(PRIO_PROCESS, 0, before_);
}

Unpreferred::Unpreferred(bool wanted) {
    const int before = ::getpriority(PRIO_PROCESS, 0);
    const int ordinary = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
    if (wanted && before < ordinary && ::setpriority(PRIO_PROCESS, 0, ordinary) == 0) {
        before_ = before;
    }
}

Unpreferred::~Unpreferred() {
    if (before_) {
        (void)::setpriority(PRIO_PROCESS, 0, *before_);
    }
}

}  // namespace gpusnoop
