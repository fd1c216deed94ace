#include "lives/calls.h"

#include "cudart/cudart.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

#include <dlfcn.h>
#include <unistd.h>

namespace calls {

namespace {

constexpr std::size_t kBytes = 16;

std::deque<void *> allocated;
std::atomic<unsigned> hanging = 0;
thread_local bool hangs = false;

void check(int error) {
    if (error != standin::kSuccess) {
        std::fprintf(stderr, "a CUDA call failed: %d\n", error);
        std::exit(1);
    }
}

// In the middle of each call.
void hang_here(const char * /*function*/, void * /*context*/) {
    if (hangs) {
        hanging++;
        while (true) {
            pause();
        }
    }
}

// What it needs is in `memory`: these calls alone are made by the thread.
void call(const std::string &function, void *memory) {
    static char host[kBytes];
    if (function == "cudaMemset") {
        check(cudaMemset(memory, 1, kBytes));
    } else if (function == "cudaMemcpy") {
        check(cudaMemcpy(memory, host, kBytes, standin::kHostToDevice));
    } else if (function == "cudaDeviceSynchronize") {
        check(cudaDeviceSynchronize());
    } else if (function == "cudaLaunchKernel") {
        check(cudaLaunchKernel(reinterpret_cast<const void *>(check), {1, 1, 1}, {32, 1, 1},
                               nullptr, 0, nullptr));
    } else {
        std::fprintf(stderr, "no such call: %s\n", function.c_str());
        std::exit(2);
    }
}

}  // namespace

void allocate(std::size_t bytes) {
    void *memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    allocated.push_back(memory);
}

void pin(std::size_t bytes) {
    void *memory = nullptr;
    check(cudaMallocHost(&memory, bytes));
}

void free_first() {
    check(cudaFree(allocated.front()));
    allocated.pop_front();
}

void choose_device(int device) {
    check(cudaSetDevice(device));
}

void in_thread(const std::string &function) {
    std::thread([&] { call(function, allocated.front()); }).join();
}

void hang(const std::string &function) {
    const unsigned before = hanging.load();
    standin_set_hook(hang_here, nullptr);
    std::thread([function, memory = allocated.front()] {
        hangs = true;
        call(function, memory);
    }).detach();
    while (hanging.load() == before) {
        usleep(100);
    }
}

void use_memory() {
    allocate(kBytes);
    call("cudaMemset", allocated.back());
    check(cudaFree(allocated.back()));
    allocated.pop_back();
}

void load_and_unload(const std::string &path, int times) {
    for (int i = 0; i < times; i++) {
        void *const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        const auto allocate = reinterpret_cast<decltype(&cudaMalloc)>(
            library ? dlsym(library, "cudaMalloc") : nullptr);
        if (allocate == nullptr) {
            std::fprintf(stderr, "cannot load %s: %s\n", path.c_str(), dlerror());
            std::exit(1);
        }
        const auto free = reinterpret_cast<decltype(&cudaFree)>(dlsym(library, "cudaFree"));
        void *memory = nullptr;
        check(allocate(&memory, kBytes));
        check(free(memory));
        dlclose(library);
    }
}

}  // namespace calls
