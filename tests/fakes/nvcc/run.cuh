// What the CUDA demo programs share: a round of calls around their kernels, and their main.

#pragma once

#include "workload/options.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace demo {

constexpr int kCount = 1 << 16;

inline void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        std::exit(1);
    }
}

struct Buffers {
    float *a = nullptr;
    float *b = nullptr;
    float *sum = nullptr;
};

// `kernels` launches whatever the program is about.
template <typename Kernels>
void run_round(const Buffers &device, Kernels kernels) {
    static std::vector<float> host(kCount, 1.0F);
    constexpr std::size_t kBytes = kCount * sizeof(float);
    check(cudaMemcpy(device.a, host.data(), kBytes, cudaMemcpyHostToDevice), "copy in");
    check(cudaMemcpyAsync(device.b, device.a, kBytes, cudaMemcpyDeviceToDevice), "copy across");
    kernels(device);
    check(cudaGetLastError(), "launch");
    check(cudaDeviceSynchronize(), "synchronize");
    check(cudaMemcpy(host.data(), device.sum, kBytes / 2, cudaMemcpyDefault), "copy out");
}

template <typename Kernels>
int run_demo(int argc, char **argv, Kernels kernels) {
    const Options options = parse_options(argc, argv);
    prepare(options);
    Buffers device;
    for (float **buffer : {&device.a, &device.b, &device.sum}) {
        check(cudaMalloc(buffer, kCount * sizeof(float)), "allocate");
    }
    for (std::uint64_t done = 0; done < iterations(options) && !stop_requested(); ++done) {
        run_round(device, kernels);
        if (options.leak != 0) {
            void *never_freed = nullptr;
            cudaMalloc(&never_freed, options.leak);
        }
    }
    if (options.hold) {
        hold();
    } else {
        for (float *buffer : {device.a, device.b, device.sum}) {
            check(cudaFree(buffer), "free");
        }
    }
    std::puts("done");
    return 0;
}

}  // namespace demo
