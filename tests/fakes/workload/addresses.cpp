// addresses [NAME]
// Launches kernels at 4096 addresses that have no symbols, one after the other, until it is killed.
// What it registers is known only to those who see it do that, at its start. Prints "launching"
// then.
#include "cudart/cudart.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>

namespace {

constexpr std::size_t addresses = 4096;
alignas(16) const char nothing[16 * addresses] = {};

void register_all() {
    static int image = 0;
    void **const binary = __cudaRegisterFatBinary(&image);
    for (std::size_t at = 0; at < addresses; ++at) {
        std::string name = "_Z1k" + std::to_string(at) + "v";
        __cudaRegisterFunction(binary, &nothing[16 * at], name.data(), name.c_str(), -1, nullptr,
                               nullptr, nullptr, nullptr, nullptr);
    }
    __cudaRegisterFatBinaryEnd(binary);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc > 1) {
        prctl(PR_SET_NAME, argv[1]);
    }
    register_all();
    std::puts("launching");
    std::fflush(stdout);
    for (std::size_t at = 0;; at = (at + 1) % addresses) {
        (void)cudaLaunchKernel(&nothing[16 * at], {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr);
        usleep(50);
    }
}
