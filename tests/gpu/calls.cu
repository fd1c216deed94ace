// A CUDA program that counts its own calls. Threads allocate, copy in every direction, launch and
// fail; then it prints as JSON what a page must show of it, and waits to be killed with some memory
// unfreed.
//
//   calls [THREADS [ROUNDS]]
//
// "running" is what holds until then, "ended" what holds after; each row is a metric's name,
// labels, and the sum over the samples that have them.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

namespace kernels {

__global__ void scale(float *values, float factor, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) {
        values[at] *= factor;
    }
}

template <typename Value>
__global__ void fill(Value *values, Value value, int count) {
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int at = block * blockDim.x * blockDim.y * blockDim.z + thread;
    if (at < count) {
        values[at] = value;
    }
}

}  // namespace kernels

namespace {

constexpr int kFloats = 1 << 14;
constexpr std::size_t kBytes = kFloats * sizeof(float);

// What was done, as the calls themselves answered.
class Totals {
public:
    // Counts a failure and says whether the call succeeded.
    bool succeeded(const char *function, cudaError_t result) {
        if (result == cudaSuccess) {
            return true;
        }
        (void)cudaGetLastError();  // or the next launch would report it again
        add("cuda_api_errors_total",
            label("function", function) + ", " + label("error", cudaGetErrorName(result)), 1);
        add("cuda_api_errors_total", "", 1);
        return false;
    }

    void allocated(std::size_t bytes) {
        add("cuda_memory_allocations_total", "", 1);
        add("cuda_memory_allocated_bytes_total", "", bytes);
        outstanding(bytes == 0 ? 0 : 1, static_cast<std::int64_t>(bytes));
    }

    void freed(std::size_t bytes) {
        add("cuda_memory_frees_total", "", 1);
        add("cuda_memory_freed_bytes_total", "", bytes);
        outstanding(-1, -static_cast<std::int64_t>(bytes));
    }

    void copied(const char *direction, const char *mode, std::size_t bytes) {
        const std::string labels = label("direction", direction) + ", " + label("mode", mode);
        add("cuda_memcpy_total", labels, 1);
        add("cuda_memcpy_bytes_total", labels, bytes);
        add("cuda_memcpy_total", "", 1);
        add("cuda_memcpy_size_bytes_sum", label("direction", direction), bytes);
        if (std::string(mode) == "sync") {
            add("cuda_memcpy_duration_seconds_count", label("direction", direction), 1);
        }
    }

    void launched(const std::string &kernel, dim3 grid, dim3 block) {
        add("cuda_kernel_launches_total",
            label("kernel", kernel) + ", " + label("grid", shape(grid)) + ", " +
                label("block", shape(block)),
            1);
        add("cuda_kernel_launches_total", "", 1);
        add("cuda_kernel_launch_duration_seconds_count", "", 1);
        add("cuda_kernel_launch_threads_sum", "",
            std::uint64_t{1} * grid.x * grid.y * grid.z * block.x * block.y * block.z);
    }

    void print(const std::string &comm) {
        const std::string own = label("pid", std::to_string(getpid()));
        add("cuda_memory_untracked_frees_total", "", 0);
        std::printf("{\"program\": \"%s\", \"pid\": %d, \"running\": [", comm.c_str(), getpid());
        for (const auto &[what, value] : counts_) {
            const std::string labels = what.second.empty() ? "" : ", " + what.second;
            row(what.first, label("comm", comm) + labels, value);
        }
        row("cuda_memory_outstanding_bytes", own, static_cast<std::uint64_t>(live_bytes_));
        row("cuda_memory_outstanding_allocations", own, static_cast<std::uint64_t>(live_), "");
        std::printf("], \"ended\": [");
        row("cuda_memory_unfreed_at_exit_bytes_total", label("comm", comm),
            static_cast<std::uint64_t>(live_bytes_));
        row("cuda_memory_unfreed_at_exit_allocations_total", label("comm", comm),
            static_cast<std::uint64_t>(live_));
        row("cuda_memory_outstanding_bytes", own, 0, "");
        std::printf("]}\n");
        std::fflush(stdout);
    }

private:
    static std::string label(const std::string &name, const std::string &value) {
        return "\"" + name + "\": \"" + value + "\"";
    }

    static std::string shape(dim3 of) {
        return std::to_string(of.x) + "x" + std::to_string(of.y) + "x" + std::to_string(of.z);
    }

    static void row(const std::string &metric, const std::string &labels, std::uint64_t value,
                    const char *separator = ",") {
        std::printf("\n  [\"gpusnoop_%s\", {%s}, %llu]%s", metric.c_str(), labels.c_str(),
                    static_cast<unsigned long long>(value), separator);
    }

    void add(const std::string &metric, const std::string &labels, std::uint64_t amount) {
        const std::lock_guard<std::mutex> lock(mutex_);
        counts_[{metric, labels}] += amount;
    }

    void outstanding(int allocations, std::int64_t bytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        live_ += allocations;
        live_bytes_ += bytes;
    }

    std::mutex mutex_;
    std::map<std::pair<std::string, std::string>, std::uint64_t> counts_;
    std::int64_t live_ = 0;
    std::int64_t live_bytes_ = 0;
};

Totals totals;

void fatal(const char *what) {
    std::fprintf(stderr, "calls: %s failed\n", what);
    std::exit(1);
}

void *allocate(std::size_t bytes) {
    void *memory = nullptr;
    if (!totals.succeeded("cudaMalloc", cudaMalloc(&memory, bytes))) {
        return nullptr;
    }
    totals.allocated(bytes);
    return memory;
}

void release(void *memory, std::size_t bytes) {
    // Freeing nothing is allowed, and nothing is freed.
    if (totals.succeeded("cudaFree", cudaFree(memory)) && memory != nullptr) {
        totals.freed(bytes);
    }
}

// `is` is what the copy is, `asked` what the call says it is.
void copy(const char *is, void *to, const void *from, std::size_t bytes, cudaMemcpyKind asked) {
    if (totals.succeeded("cudaMemcpy", cudaMemcpy(to, from, bytes, asked))) {
        totals.copied(is, "sync", bytes);
    }
    if (totals.succeeded("cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes / 2, asked))) {
        totals.copied(is, "async", bytes / 2);
    }
    if (cudaDeviceSynchronize() != cudaSuccess) {
        fatal("synchronizing");
    }
}

void copy_everywhere(float *device, float *other, std::vector<float> &host,
                     std::vector<float> &more, std::size_t bytes) {
    copy("h2d", device, host.data(), bytes, cudaMemcpyHostToDevice);
    copy("d2d", other, device, bytes, cudaMemcpyDeviceToDevice);
    copy("d2h", more.data(), other, bytes, cudaMemcpyDeviceToHost);
    copy("h2h", host.data(), more.data(), bytes, cudaMemcpyHostToHost);
    copy("h2d", device, host.data(), bytes / 4, cudaMemcpyDefault);
    copy("d2d", other, device + 16, bytes / 4, cudaMemcpyDefault);
    copy("d2h", more.data(), other + 16, bytes / 4, cudaMemcpyDefault);
    copy("h2h", host.data(), more.data(), bytes / 4, cudaMemcpyDefault);
}

void launch(float *device) {
    for (const int threads : {128, 256}) {
        kernels::scale<<<kFloats / threads, threads>>>(device, 2.0F, kFloats);
        if (totals.succeeded("cudaLaunchKernel", cudaGetLastError())) {
            totals.launched("kernels::scale", kFloats / threads, threads);
        }
    }
    const dim3 grid(2, 3, 4);
    const dim3 block(8, 4, 2);
    kernels::fill<<<grid, block>>>(device, 1.0F, kFloats);
    if (totals.succeeded("cudaLaunchKernel", cudaGetLastError())) {
        totals.launched("kernels::fill<float>", grid, block);
    }
}

void fail(float *device, std::vector<float> &host) {
    if (allocate(std::size_t{1} << 50) != nullptr) {
        fatal("failing to allocate a petabyte");
    }
    release(host.data(), 0);  // not device memory
    copy("nothing", device, host.data(), 64, static_cast<cudaMemcpyKind>(9));
    kernels::scale<<<1, 4096>>>(device, 1.0F, 0);  // more threads than a block can have
    if (totals.succeeded("cudaLaunchKernel", cudaGetLastError())) {
        fatal("failing to launch");
    }
}

void work(int rounds) {
    std::vector<float> host(kFloats, 1.0F);
    std::vector<float> more(kFloats);
    auto *device = static_cast<float *>(allocate(kBytes));
    auto *other = static_cast<float *>(allocate(kBytes));
    for (int round = 0; round < rounds; ++round) {
        const std::size_t bytes = 1000 + 4096 * static_cast<std::size_t>(round % 7);
        void *memory = allocate(bytes);
        copy_everywhere(device, other, host, more, bytes);
        launch(device);
        if (round % 10 == 0) {
            fail(device, host);
            release(allocate(0), 0);
        }
        release(memory, bytes);
    }
    if (cudaDeviceSynchronize() != cudaSuccess) {
        fatal("synchronizing");
    }
    release(other, kBytes);  // `device` stays
}

}  // namespace

int main(int argc, char **argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : 4;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
    std::vector<std::thread> workers;
    for (int at = 0; at < threads; ++at) {
        workers.emplace_back(work, rounds);
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    char comm[16];
    prctl(PR_GET_NAME, comm);
    totals.print(comm);
    for (;;) {
        pause();
    }
}
