// How CUDA calls wait. One call after another waits for the GPU, or for memory, while another
// thread notes what /proc has of the waiting one: its state, and the system call that it is in.
//
//   waits [spin|yield|blocking]
//
// Prints a line for each kind of call: how often which state and system call were seen, and how
// long the call took. The argument is what the program asks cudaSetDeviceFlags for.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr int kMilliseconds = 300;  // that the GPU is busy for

__global__ void busy(long long nanoseconds) {
    long long begin;
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < nanoseconds);
}

__global__ void nothing() {}

void require(cudaError_t result, const char *what) {
    if (result != cudaSuccess) {
        std::fprintf(stderr, "waits: %s failed: %s\n", what, cudaGetErrorString(result));
        std::exit(1);
    }
}

std::string first_word(const std::string &file) {
    std::ifstream stream(file);
    std::string word;
    stream >> word;
    return word.empty() ? "-" : word;
}

// "R (running)" and the like, from the thread's status.
std::string state_of(const std::string &thread) {
    std::ifstream stream(thread + "/stat");
    std::string line;
    std::getline(stream, line);
    const std::size_t end = line.rfind(')');
    return end == std::string::npos || end + 2 >= line.size() ? "-" : line.substr(end + 2, 1);
}

class Watched {
public:
    // Runs `call` in this thread while another looks at it.
    void run(const char *kind, const std::function<void()> &call) {
        const std::string thread = "/proc/self/task/" + std::to_string(syscall(SYS_gettid));
        std::map<std::string, int> seen;
        std::atomic<bool> over{false};
        std::thread watcher([&] {
            while (!over) {
                ++seen[state_of(thread) + " " + first_word(thread + "/syscall") + " " +
                       first_word(thread + "/wchan")];
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        seen.clear();
        const auto begin = std::chrono::steady_clock::now();
        call();
        const auto took = std::chrono::steady_clock::now() - begin;
        over = true;
        watcher.join();
        std::printf("%-34s %8.2f ms ", kind,
                    std::chrono::duration<double, std::milli>(took).count());
        std::vector<std::pair<int, std::string>> sorted;
        for (const auto &[what, count] : seen) {
            sorted.emplace_back(count, what);
        }
        std::sort(sorted.rbegin(), sorted.rend());
        for (const auto &[count, what] : sorted) {
            std::printf(" | %s: %d", what.c_str(), count);
        }
        std::printf("\n");
        std::fflush(stdout);
    }
};

void keep_busy(int milliseconds = kMilliseconds) {
    busy<<<1, 1>>>(milliseconds * 1000000LL);
    require(cudaGetLastError(), "a launch");
}

}  // namespace

int main(int argc, char **argv) {
    const std::string how = argc > 1 ? argv[1] : "auto";
    const std::map<std::string, unsigned> flags = {{"auto", cudaDeviceScheduleAuto},
                                                   {"spin", cudaDeviceScheduleSpin},
                                                   {"yield", cudaDeviceScheduleYield},
                                                   {"blocking", cudaDeviceScheduleBlockingSync}};
    if (flags.count(how) == 0) {
        std::fprintf(stderr, "usage: waits [spin|yield|blocking]\n");
        return 2;
    }
    Watched watched;
    std::printf(
        "== schedule %s: kind, duration, state + system call + where in the kernel: samples\n",
        how.c_str());
    watched.run("cudaSetDeviceFlags", [&] { require(cudaSetDeviceFlags(flags.at(how)), "flags"); });
    watched.run("first cudaFree(nullptr)", [] { require(cudaFree(nullptr), "the first call"); });
    watched.run("first launch", [] {
        nothing<<<1, 1>>>();
        require(cudaDeviceSynchronize(), "the first launch");
    });

    void *device = nullptr;
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    std::vector<char> pageable(kBytes);
    void *pinned = nullptr;
    cudaEvent_t spins;
    cudaEvent_t blocks;
    cudaStream_t stream;
    watched.run("cudaMalloc 256 MiB", [&] { require(cudaMalloc(&device, kBytes), "cudaMalloc"); });
    watched.run("cudaMallocHost 256 MiB",
                [&] { require(cudaMallocHost(&pinned, kBytes), "cudaMallocHost"); });
    require(cudaEventCreate(&spins), "an event");
    require(cudaEventCreateWithFlags(&blocks, cudaEventBlockingSync), "an event");
    require(cudaStreamCreate(&stream), "a stream");

    keep_busy();
    watched.run("cudaDeviceSynchronize", [] { require(cudaDeviceSynchronize(), "device"); });
    keep_busy();
    watched.run("cudaStreamSynchronize", [] { require(cudaStreamSynchronize(nullptr), "stream"); });
    keep_busy();
    require(cudaEventRecord(spins), "record");
    watched.run("cudaEventSynchronize", [&] { require(cudaEventSynchronize(spins), "event"); });
    keep_busy();
    require(cudaEventRecord(blocks), "record");
    watched.run("cudaEventSynchronize, blocking event",
                [&] { require(cudaEventSynchronize(blocks), "event"); });
    keep_busy();
    watched.run("cudaMemcpy d2h 4 bytes, GPU busy", [&] {
        require(cudaMemcpy(pageable.data(), device, 4, cudaMemcpyDeviceToHost), "copy");
    });
    watched.run("cudaMemcpy h2d 256 MiB pageable", [&] {
        require(cudaMemcpy(device, pageable.data(), kBytes, cudaMemcpyHostToDevice), "copy");
    });
    watched.run("cudaMemcpy h2d 256 MiB pinned", [&] {
        require(cudaMemcpy(device, pinned, kBytes, cudaMemcpyHostToDevice), "copy");
    });
    keep_busy();
    watched.run("cudaMemcpyAsync h2d pageable, busy", [&] {
        require(cudaMemcpyAsync(device, pageable.data(), kBytes, cudaMemcpyHostToDevice), "copy");
    });
    require(cudaDeviceSynchronize(), "device");
    keep_busy();
    watched.run("20000 launches, GPU busy (queue full)", [] {
        for (int i = 0; i < 20000; ++i) {
            nothing<<<1, 1>>>();
        }
    });
    require(cudaDeviceSynchronize(), "device");
    keep_busy();
    watched.run("cudaFree, GPU busy", [&] { require(cudaFree(device), "cudaFree"); });
    watched.run("cudaFreeHost", [&] { require(cudaFreeHost(pinned), "cudaFreeHost"); });
    keep_busy();
    watched.run("cudaStreamDestroy, GPU busy",
                [&] { require(cudaStreamDestroy(stream), "stream"); });
    watched.run("cudaDeviceReset, GPU busy", [] { require(cudaDeviceReset(), "reset"); });
    return 0;
}
