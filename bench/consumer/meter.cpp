#include "bench/consumer/meter.h"

#include <sys/resource.h>

#include <cstdlib>
#include <new>

#include "exporter/system/machine.h"

namespace {

// The counts of this thread, once it counts.
thread_local bool counts = false;
thread_local std::uint64_t allocations = 0;

}  // namespace

// The program's own, which the library's other forms all call.
void *operator new(std::size_t size) {
    allocations += counts ? 1 : 0;
    if (void *memory = std::malloc(size == 0 ? 1 : size)) {
        return memory;
    }
    throw std::bad_alloc();
}

void *operator new(std::size_t size, std::align_val_t alignment) {
    allocations += counts ? 1 : 0;
    const auto step = static_cast<std::size_t>(alignment);
    if (void *memory = std::aligned_alloc(step, (size + step - 1) / step * step)) {
        return memory;
    }
    throw std::bad_alloc();
}

void operator delete(void *memory) noexcept {
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept {
    std::free(memory);
}

void operator delete(void *memory, std::align_val_t) noexcept {
    std::free(memory);
}

void operator delete(void *memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}

namespace gpusnoop::bench {

void Meter::note_round() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    sleeps_ = static_cast<std::uint64_t>(usage.ru_nvcsw);
    allocations_ = allocations;
    counts = true;
    cpu_ns_ = static_cast<std::uint64_t>(now_on(CLOCK_THREAD_CPUTIME_ID).count());
    rounds_.fetch_add(1, std::memory_order_release);
}

Spent Meter::spent() const {
    Spent spent;
    spent.rounds = rounds_.load(std::memory_order_acquire);
    spent.cpu = std::chrono::nanoseconds(static_cast<std::int64_t>(cpu_ns_.load()));
    spent.sleeps = sleeps_;
    spent.allocations = allocations_;
    return spent;
}

}  // namespace gpusnoop::bench
