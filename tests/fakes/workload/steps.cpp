// steps STEP...: does what it is told, one step after the other. What it holds at its end it never
// frees.
//
//   name COMM           of the process
//   allocate N BYTES    N times so many bytes
//   free N              those that were allocated first
//   reset               the device
//   map FIRST N         memory with a handle, 2 MiB each, at N places side by side of a range of
//                       addresses; the handles are released, so that only the mappings hold it
//   unmap FIRST N       those places, by one call
//   create TYPE ID      a handle of memory, 2 MiB, at that CUmemLocation; it is never released
//   pool TYPE ID BYTES  so many bytes from a new pool at that location, which is destroyed
//   default_pool ID BYTES  from the default pool of that device
//   located_pool ID BYTES  the same, asked for by its location
//   stream ID BYTES     so many bytes on a new stream of that device, which is not the thread's
//   green ID BYTES      the same, on a stream of a green context of that device
//   use DEVICE          makes it the thread's
//   refuse BYTES        asks for so many, which is refused
//   piece ID BYTES      asks for a handle of so many bytes on that device, which is refused
//   refuse_device ID    makes that device the thread's, which is refused: it has no memory left
//   pin BYTES           asks for pinned memory, which is refused
//   host BYTES          pinned memory
//   info                reads how much is free
//   wait                prints "waiting K", K counted from 1, and waits for SIGUSR1

#include "cudart/cudart.h"
#include "driver/driver_api.h"

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>

#include <sys/prctl.h>

namespace {

constexpr std::size_t kPlace = std::size_t{2} << 20U;
constexpr std::size_t kPlaces = 1 << 16;

class Steps {
public:
    Steps() {
        sigemptyset(&wake_);
        sigaddset(&wake_, SIGUSR1);
        sigprocmask(SIG_BLOCK, &wake_, nullptr);
    }

    // How many words the step took; 0: it is none.
    int run(const std::string &step, const char *const *words, int count) {
        if (step == "name" && count > 0) {
            prctl(PR_SET_NAME, words[0]);
            return 1;
        }
        if (step == "allocate" && count > 1) {
            allocate(number(words[0]), number(words[1]));
            return 2;
        }
        if (step == "free" && count > 0) {
            free_oldest(number(words[0]));
            return 1;
        }
        if (step == "map" && count > 1) {
            map(number(words[0]), number(words[1]));
            return 2;
        }
        if (step == "unmap" && count > 1) {
            check(standin::driver().cuMemUnmap(place(number(words[0])), number(words[1]) * kPlace));
            return 2;
        }
        return run_located(step, words, count);
    }
    bool run(const std::string &step) {
        if (step == "reset") {
            check(cudaDeviceReset());
            memory_.clear();
        } else if (step == "info") {
            std::size_t free_bytes = 0;
            std::size_t total_bytes = 0;
            check(cudaMemGetInfo(&free_bytes, &total_bytes));
        } else if (step == "wait") {
            std::printf("waiting %d\n", ++waits_);
            std::fflush(stdout);
            int signal = 0;
            sigwait(&wake_, &signal);
        } else {
            return false;
        }
        return true;
    }

private:
    static std::size_t number(const char *word) { return std::strtoull(word, nullptr, 10); }
    static void check(int error) {
        if (error != standin::kSuccess) {
            std::fprintf(stderr, "a step failed: %d\n", error);
            std::exit(1);
        }
    }
    static void check_refused(int error) {
        check(error == standin::kMemoryAllocation ? standin::kSuccess : standin::kUnknown);
    }
    // What names a device itself.
    int run_located(const std::string &step, const char *const *words, int count) {
        const auto &driver = standin::driver();
        const auto integer = [&](int at) { return static_cast<int>(number(words[at])); };
        if (step == "create" && count > 1) {
            standin::MemoryProperties properties;
            properties.location = {integer(0), integer(1)};
            standin::MemoryHandle handle = 0;
            check(driver.cuInit(0));
            check(driver.cuMemCreate(&handle, kPlace, &properties, 0));
            return 2;
        }
        if (step == "pool" && count > 2) {
            standin::PoolProperties properties;
            properties.location = {integer(0), integer(1)};
            standin::MemoryPool pool = nullptr;
            check(driver.cuMemPoolCreate(&pool, &properties));
            allocate_from(pool, number(words[2]));
            check(driver.cuMemPoolDestroy(pool));
            return 3;
        }
        if (step == "default_pool" && count > 1) {
            standin::MemoryPool pool = nullptr;
            check(cudaDeviceGetDefaultMemPool(&pool, integer(0)));
            allocate_from(pool, number(words[1]));
            return 2;
        }
        if (step == "located_pool" && count > 1) {
            standin::MemoryPool pool = nullptr;
            standin::MemoryLocation location{.id = integer(0)};
            check(cudaMemGetMemPool(&pool, &location, 1));
            allocate_from(pool, number(words[1]));
            return 2;
        }
        if (step == "stream" && count > 1) {
            int own = 0;
            standin::Stream stream = nullptr;
            void *memory = nullptr;
            check(cudaGetDevice(&own));
            check(cudaSetDevice(integer(0)));
            check(cudaStreamCreateWithPriority(&stream, standin::kNonBlockingStream, 0));
            check(cudaSetDevice(own));
            check(cudaMallocAsync(&memory, number(words[1]), stream));
            return 2;
        }
        if (step == "green" && count > 1) {
            standin::Context context = nullptr;
            standin::Stream stream = nullptr;
            void *memory = nullptr;
            check(driver.cuInit(0));
            check(driver.cuDevicePrimaryCtxRetain(&context, integer(0)));
            check(cudaExecutionCtxStreamCreate(&stream, context, standin::kNonBlockingStream, 0));
            check(cudaMallocAsync(&memory, number(words[1]), stream));
            return 2;
        }
        if (step == "use" && count > 0) {
            check(cudaSetDevice(integer(0)));
            return 1;
        }
        if (step == "piece" && count > 1) {
            standin::MemoryProperties properties;
            properties.location = {standin::kOnDevice, integer(0)};
            standin::MemoryHandle handle = 0;
            check(driver.cuInit(0));
            check_refused(driver.cuMemCreate(&handle, number(words[1]), &properties, 0));
            return 2;
        }
        return run_refused(step, words, count);
    }
    // What asks for more than there is.
    int run_refused(const std::string &step, const char *const *words, int count) {
        void *memory = nullptr;
        if (step == "refuse" && count > 0) {
            check_refused(cudaMalloc(&memory, number(words[0])));
            return 1;
        }
        if (step == "pin" && count > 0) {
            check_refused(cudaMallocHost(&memory, number(words[0])));
            return 1;
        }
        if (step == "refuse_device" && count > 0) {
            check_refused(cudaSetDevice(static_cast<int>(number(words[0]))));
            return 1;
        }
        if (step == "host" && count > 0) {
            check(cudaMallocHost(&memory, number(words[0])));
            return 1;
        }
        return -1;
    }
    static void allocate_from(standin::MemoryPool pool, std::size_t bytes) {
        void *memory = nullptr;
        check(cudaMallocFromPoolAsync(&memory, bytes, pool, nullptr));
    }
    void allocate(std::size_t times, std::size_t bytes) {
        for (std::size_t i = 0; i < times; ++i) {
            void *memory = nullptr;
            check(cudaMalloc(&memory, bytes));
            memory_.push_back(memory);
        }
    }
    void free_oldest(std::size_t times) {
        for (std::size_t i = 0; i < times && !memory_.empty(); ++i) {
            check(cudaFree(memory_.front()));
            memory_.pop_front();
        }
    }
    standin::DevicePointer place(std::size_t index) {
        if (range_ == 0) {
            check(standin::driver().cuInit(0));
            check(standin::driver().cuMemAddressReserve(&range_, kPlaces * kPlace, 0, 0, 0));
        }
        return range_ + index * kPlace;
    }
    void map(std::size_t first, std::size_t count) {
        for (std::size_t i = first; i < first + count; ++i) {
            const standin::DevicePointer where = place(i);
            standin::MemoryProperties properties;
            standin::MemoryHandle handle = 0;
            check(standin::driver().cuMemCreate(&handle, kPlace, &properties, 0));
            check(standin::driver().cuMemMap(where, kPlace, 0, handle, 0));
            check(standin::driver().cuMemRelease(handle));
        }
    }

    sigset_t wake_{};
    int waits_ = 0;
    std::deque<void *> memory_;
    standin::DevicePointer range_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
    Steps steps;
    for (int at = 1; at < argc; ++at) {
        if (steps.run(argv[at])) {
            continue;
        }
        const int words = steps.run(argv[at], argv + at + 1, argc - at - 1);
        if (words < 0) {
            std::fprintf(stderr, "no such step: %s\n", argv[at]);
            return 2;
        }
        at += words;
    }
    return 0;
}
