#include "workload/driver_worker.h"

#include "workload/known_arguments.h"

#include "driver/driver_api.h"

namespace demo {
namespace {

using standin::driver;
using standin::kSuccess;

constexpr std::size_t kMostLive = 32;

}  // namespace

DriverWorker::DriverWorker(const Options &options, unsigned index)
    : options_(options),
      generator_(options.seed * 10007 + index),
      pacer_(options),
      host_(kBufferBytes) {}

void DriverWorker::run() {
    const std::uint64_t most = iterations(options_);
    if (most == 0 || !begin()) {
        return;
    }
    const Deadline deadline(options_);
    for (std::uint64_t done = 0; done < most && !deadline.passed(); ++done) {
        iterate();
    }
    if (!options_.hold) {
        finish();
    }
}

bool DriverWorker::begin() {
    standin::Context context = nullptr;
    driver().cuInit(0);
    if (driver().cuDevicePrimaryCtxRetain(&context, 0) != kSuccess ||
        driver().cuCtxSetCurrent(context) != kSuccess) {
        return false;
    }
    standin::Module module = nullptr;
    driver().cuModuleLoadData(&module, "an image");
    for (const char *name :
         {"_Z9vectorAddPKfS0_Pfi", "triton_poi_fused_add_0", "_Z12sixteenWordsmmmmmmmmmmmmmmmm"}) {
        standin::DriverFunction function = nullptr;
        driver().cuModuleGetFunction(&function, module, name);
        kernels_.push_back(function);
    }
    driver().cuMemAlloc_v2(&device_a_, kBufferBytes);
    driver().cuMemAlloc_v2(&device_b_, kBufferBytes);
    return true;
}

void DriverWorker::iterate() {
    allocate_and_free();
    copy();
    launch();
    if (options_.failures && random(4) == 0) {
        fail();
    }
    if (options_.memory_kinds) {
        use_other_memory();
    }
    if (options_.leak != 0) {
        standin::DevicePointer never_freed = 0;
        pace();
        driver().cuMemAlloc_v2(&never_freed, options_.leak);
    }
    if (random(8) == 0) {
        pace();
        driver().cuCtxSynchronize();
    }
}

void DriverWorker::allocate_and_free() {
    standin::DevicePointer memory = 0;
    pace();
    if (driver().cuMemAlloc_v2(&memory, random_size(22)) == kSuccess) {
        memory_.push_back(memory);
    }
    if (memory_.size() > kMostLive) {
        pace();
        driver().cuMemFree_v2(memory_.front());
        memory_.pop_front();
    }
}

void DriverWorker::copy() {
    const std::size_t bytes = random_size(18);
    pace();
    driver().cuMemcpyHtoD_v2(device_a_, host_.data(), bytes);
    pace();
    driver().cuMemcpyHtoDAsync_v2(device_b_, host_.data(), bytes / 2, nullptr);
    if (random(2) == 0) {
        pace();
        driver().cuMemcpyDtoD_v2(device_b_, device_a_, bytes);
    }
    if (options_.default_kind) {
        pace();
        driver().cuMemcpy(device_b_, reinterpret_cast<standin::DevicePointer>(host_.data()), bytes);
    }
    pace();
    driver().cuMemsetD32_v2(device_a_, 1, bytes / 4);
    pace();
    driver().cuMemcpyDtoHAsync_v2(host_.data(), device_a_, bytes / 4, nullptr);
    pace();
    driver().cuMemcpyDtoH_v2(host_.data(), device_b_, bytes);
}

void DriverWorker::launch() {
    KnownArguments arguments;
    pace();
    if (options_.known_arguments) {
        driver().cuLaunchKernel(kernels_.back(), 2, 3, 4, 5, 6, 7, 512, nullptr,
                                arguments.pointers(), nullptr);
        return;
    }
    const auto blocks = static_cast<unsigned>(1U << random(7));
    driver().cuLaunchKernel(kernels_[random(kernels_.size())], blocks, 1, 1, 256, 1, 1, 0, nullptr,
                            arguments.pointers(), nullptr);
}

void DriverWorker::fail() {
    standin::DevicePointer memory = 0;
    pace();
    switch (random(4)) {
        case 0:
            driver().cuMemAlloc_v2(&memory, std::size_t{1} << 50U);
            break;
        case 1:
            driver().cuMemFree_v2(reinterpret_cast<standin::DevicePointer>(host_.data()));
            break;
        case 2:
            driver().cuLaunchKernel(kernels_[0], 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr);
            break;
        default:
            driver().cuCtxSetCurrent(this);
    }
}

void DriverWorker::use_other_memory() {
    standin::DevicePointer managed = 0;
    void *pinned = nullptr;
    standin::DevicePointer ordered = 0;
    driver().cuMemAllocManaged(&managed, random_size(16), 1);
    driver().cuMemHostAlloc(&pinned, random_size(16), 0);
    driver().cuMemAllocAsync(&ordered, random_size(16), nullptr);
    driver().cuMemFree_v2(managed);
    driver().cuMemFreeHost(pinned);
    driver().cuMemFreeAsync(ordered, nullptr);
}

void DriverWorker::finish() {
    memory_.push_back(device_a_);
    memory_.push_back(device_b_);
    for (const standin::DevicePointer memory : memory_) {
        driver().cuMemFree_v2(memory);
    }
}

std::size_t DriverWorker::random_size(unsigned largest_power) {
    const std::size_t size = std::size_t{1} << (8 + random(largest_power - 7));
    return size - random(size / 2);
}

}  // namespace demo
