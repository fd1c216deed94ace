#include "lives/disks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace disks {
namespace {

// Past the page cache, so that each is a request to the device, if it is not too large for one.
void access(const char *path, std::size_t bytes, long times, bool writes) {
    const int file = open(path, (writes ? O_WRONLY : O_RDONLY) | O_DIRECT | O_CLOEXEC);
    void *const block =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < times; i++) {
        const auto at = static_cast<off_t>(bytes) * i;
        const ssize_t done =
            writes ? pwrite(file, block, bytes, at) : pread(file, block, bytes, at);
        if (done != static_cast<ssize_t>(bytes)) {
            std::perror(path);
            std::_Exit(1);
        }
    }
    munmap(block, bytes);
    close(file);
}

void read_side_by_side(const char *path, std::size_t bytes, long times, long children) {
    for (long i = 0; i < children; i++) {
        if (fork() == 0) {
            access(path, bytes, times, false);
            std::_Exit(0);
        }
    }
    for (int status = 0; wait(&status) > 0;) {
        if (status != 0) {
            std::_Exit(1);
        }
    }
}

}  // namespace

int run(const std::string &step, char **words, int count) {
    if (step == "readers" && count >= 4) {
        read_side_by_side(words[0], std::strtoul(words[1], nullptr, 10),
                          std::strtol(words[2], nullptr, 10), std::strtol(words[3], nullptr, 10));
        return 4;
    }
    if (step == "unwaited" && count >= 3) {
        if (fork() == 0) {
            access(words[0], std::strtoul(words[1], nullptr, 10),
                   std::strtol(words[2], nullptr, 10), false);
            std::_Exit(0);
        }
        return 3;
    }
    if ((step != "reads" && step != "writes") || count < 3) {
        return -1;
    }
    access(words[0], std::strtoul(words[1], nullptr, 10), std::strtol(words[2], nullptr, 10),
           step == "writes");
    return 3;
}

}  // namespace disks
