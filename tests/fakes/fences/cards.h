// What the programs that make DMA fences share.
#pragma once

#include <drm/drm.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace fences {

[[noreturn]] inline void give_up(const char *what) {
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

inline void moment() {
    const timespec time{0, 2'000'000};
    ::nanosleep(&time, nullptr);
}

// The first device of the driver; -1 without one.
inline int open_card(const char *driver) {
    for (int i = 0; i < 16; i++) {
        const int fd = ::open(("/dev/dri/card" + std::to_string(i)).c_str(), O_RDWR | O_CLOEXEC);
        char name[32] = {};
        drm_version version{};
        version.name = name;
        version.name_len = sizeof(name) - 1;
        if (fd >= 0 && ::ioctl(fd, DRM_IOCTL_VERSION, &version) == 0 &&
            std::strcmp(name, driver) == 0) {
            return fd;
        }
        if (fd >= 0) {
            ::close(fd);
        }
    }
    return -1;
}

}  // namespace fences
