// addresses [NAME]
// Launches kernels at 4096 addresses that have no names, one after the other, until it is killed.
// Prints "launching" first.
#include "cudart/cudart.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

namespace {

constexpr std::size_t addresses = 4096;
alignas(16) const char nothing[16 * addresses] = {};

}  // namespace

int main(int argc, char **argv) {
    if (argc > 1) {
        prctl(PR_SET_NAME, argv[1]);
    }
    std::puts("launching");
    std::fflush(stdout);
    for (std::size_t at = 0;; at = (at + 1) % addresses) {
        (void)cudaLaunchKernel(&nothing[16 * at], {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr);
        usleep(50);
    }
}
