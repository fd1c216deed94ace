#include "exporter/system/machine.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "exporter/base/fd.h"
#include "exporter/base/log.h"

namespace gpusnoop {

std::chrono::nanoseconds now_on(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Result<> allow_many_files() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return {};
    }
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < least_open_files) {
        return fail("at least " + std::to_string(least_open_files) + " open files are needed",
                    EMFILE);
    }
    if (limit.rlim_cur < enough_open_files) {
        log::warn("the limit of open files may be too low: probes or libraries may be missing",
                  {{"limit", std::to_string(limit.rlim_cur)},
                   {"needed", std::to_string(enough_open_files)}});
    }
    return {};
}

bool has_spare_files() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return true;
    }
    const Fd next(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!next) {
        return errno != EMFILE;
    }
    return static_cast<rlim_t>(next.get()) < limit.rlim_cur - limit.rlim_cur / 8;
}

std::string limit_hint(int code) {
    rlimit limit{};
    if (code != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return "";
    }
    return ": the limit of open files is " + std::to_string(limit.rlim_cur) +
           ", raise it (LimitNOFILE= of a unit, ulimit -n)";
}

}  // namespace gpusnoop
