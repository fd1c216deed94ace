#include "driver/driver_api.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace standin {
namespace {

void *function_of(void *library, const char *name) {
    void *address = dlsym(library, name);
    if (address == nullptr) {
        std::fprintf(stderr, "stand-in: libcuda.so.1 is not the stand-in: %s\n", dlerror());
        std::abort();
    }
    return address;
}

DriverApi load() {
    const int saved_errno = errno;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "stand-in: %s\n", dlerror());
        std::abort();
    }
    DriverApi api{};
#define STANDIN_LOAD(name, ...) \
    api.name = reinterpret_cast<decltype(&::name)>(function_of(library, #name));
    CUDA_DRIVER_FUNCTIONS(STANDIN_LOAD)
    STANDIN_OTHER_DRIVER_FUNCTIONS(STANDIN_LOAD)
#undef STANDIN_LOAD
    const auto get_core =
        reinterpret_cast<decltype(&standin_core)>(function_of(library, "standin_core"));
    api.core = get_core(kCoreVersion);
    if (api.core == nullptr) {
        std::fputs("stand-in: libcuda.so.1 is the stand-in of another version\n", stderr);
        std::abort();
    }
    errno = saved_errno;
    return api;
}

}  // namespace

const DriverApi &driver() {
    static const DriverApi api = load();
    return api;
}

}  // namespace standin
