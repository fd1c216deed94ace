#include "workload/worker.h"

#include "workload/kernels.h"

#include <utility>

namespace demo {
namespace {

constexpr std::size_t kSharedPerThread = 32;

void not_a_kernel() {}

}  // namespace

void *SharedMemory::exchange(void *pointer, std::size_t room, std::uint64_t random) {
    const std::lock_guard lock(mutex_);
    pointers_.push_back(pointer);
    if (pointers_.size() <= room) {
        return nullptr;
    }
    std::swap(pointers_[random % pointers_.size()], pointers_.back());
    void *victim = pointers_.back();
    pointers_.pop_back();
    return victim;
}

std::vector<void *> SharedMemory::take_all() {
    const std::lock_guard lock(mutex_);
    return std::exchange(pointers_, {});
}

Worker::Worker(const Options &options, unsigned index, SharedMemory &shared)
    : options_(options),
      shared_(shared),
      generator_(options.seed * 10007 + index),
      pacer_(options),
      host_a_(kBufferBytes / sizeof(float)),
      host_b_(kBufferBytes / sizeof(float)) {}

void Worker::run() {
    const std::uint64_t most = iterations(options_);
    if (most == 0) {
        return;
    }
    cudaSetDevice(0);
    cudaMalloc(&device_a_, kBufferBytes);
    cudaMalloc(&device_b_, kBufferBytes);
    const Deadline deadline(options_);
    for (std::uint64_t done = 0; done < most && !deadline.passed(); ++done) {
        iterate();
    }
    if (!options_.hold) {
        cudaFree(device_a_);
        cudaFree(device_b_);
    }
}

void Worker::iterate() {
    allocate_and_free();
    copy();
    launch_kernels();
    if (options_.failures && random(4) == 0) {
        fail();
    }
    if (options_.memory_kinds) {
        use_other_memory();
    }
    if (options_.leak != 0) {
        void *never_freed = nullptr;
        pace();
        cudaMalloc(&never_freed, options_.leak);
    }
    if (random(8) == 0) {
        pace();
        cudaDeviceSynchronize();
    }
}

void Worker::allocate_and_free() {
    void *memory = nullptr;
    pace();
    if (cudaMalloc(&memory, random_size(22)) == standin::kSuccess) {
        void *victim = shared_.exchange(memory, kSharedPerThread * options_.threads, generator_());
        if (victim != nullptr) {
            pace();
            cudaFree(victim);
        }
    }
    if (random(16) == 0) {
        pace();
        cudaMalloc(&memory, 0);  // gives NULL, which may be freed
        pace();
        cudaFree(memory);
    }
}

void Worker::copy() {
    using enum standin::CopyDirection;
    const std::size_t bytes = random_size(18);
    pace();
    cudaMemcpy(device_a_, host_a_.data(), bytes, direction(kHostToDevice));
    pace();
    cudaMemcpyAsync(device_b_, host_b_.data(), bytes / 2, direction(kHostToDevice), nullptr);
    if (random(2) == 0) {
        pace();
        cudaMemcpy(device_b_, device_a_, bytes, direction(kDeviceToDevice));
    }
    if (random(4) == 0) {
        pace();
        cudaMemcpy(host_b_.data(), host_a_.data(), bytes, direction(kHostToHost));
        pace();
        cudaMemcpyAsync(device_a_, device_b_, bytes, direction(kDeviceToDevice), nullptr);
    }
    pace();
    cudaMemcpyAsync(host_a_.data(), device_a_, bytes / 4, direction(kDeviceToHost), nullptr);
    pace();
    cudaMemcpy(host_b_.data(), device_b_, bytes, direction(kDeviceToHost));
}

void Worker::launch_kernels() {
    if (options_.known_arguments) {
        pace();
        launch_known_arguments();
        return;
    }
    const auto *in = static_cast<const float *>(device_a_);
    auto *out = static_cast<float *>(device_b_);
    const auto blocks = static_cast<std::uint32_t>(1U << random(7));
    const int count = static_cast<int>(blocks) * 256;
    pace();
    launch({blocks, 1, 1}, {256, 1, 1}, vectorAdd, in, in, out, count);
    switch (random(4)) {
        case 0:
            pace();
            launch({blocks, 1, 1}, {128, 1, 1}, saxpy, count, 2.0F, in, out);
            break;
        case 1:
            pace();
            launch({8, 8, 1}, {16, 16, 1}, linear::matrix_multiply, in, in, out, 128, 128);
            break;
        case 2:
            pace();
            launch({blocks, 1, 1}, {512, 1, 1}, reduce<float>, in, out, count);
            break;
        default:
            pace();
            launch({2, 2, 2}, {8, 8, 4}, reduce<double>, static_cast<const double *>(device_a_),
                   static_cast<double *>(device_b_), 64);
    }
}

void Worker::fail() {
    void *memory = nullptr;
    pace();
    switch (random(6)) {
        case 0:
            cudaMalloc(&memory, std::size_t{1} << 50U);
            break;
        case 1:
            cudaFree(host_a_.data());  // not device memory
            break;
        case 2:
            cudaMemcpy(device_a_, host_a_.data(), 64, 9);
            break;
        case 3:
            launch({1, 1, 1}, {2048, 1, 1}, vectorAdd, host_a_.data(), host_a_.data(),
                   host_b_.data(), 1);
            break;
        case 4:
            cudaLaunchKernel(reinterpret_cast<const void *>(not_a_kernel), {}, {}, nullptr, 0,
                             nullptr);
            break;
        default:
            cudaSetDevice(99);
    }
    pace();
    cudaGetErrorString(cudaGetLastError());
}

void Worker::use_other_memory() {
    void *managed = nullptr;
    void *pinned = nullptr;
    void *ordered = nullptr;
    cudaMallocManaged(&managed, random_size(16), 1);
    cudaMallocHost(&pinned, random_size(16));
    cudaMallocAsync(&ordered, random_size(16), nullptr);
    cudaFree(managed);
    cudaFreeHost(pinned);
    cudaFreeAsync(ordered, nullptr);
}

std::uint64_t Worker::random(std::uint64_t below) {
    return generator_() % below;
}

// Small sizes are as frequent as large ones, as in programs, and few are powers of two.
std::size_t Worker::random_size(unsigned largest_power) {
    const std::size_t size = std::size_t{1} << (8 + random(largest_power - 7));
    return size - random(size / 2);
}

int Worker::direction(int known) {
    return options_.default_kind && random(2) == 0 ? standin::kDefault : known;
}

}  // namespace demo
