// Training steps as PyTorch makes them in eager mode, on the stand-in libraries: two copies to the
// device, then for each kernel some time of the framework and a launch, then a copy of the loss and
// one synchronization. training_step.py starts it and says how fast it is to be.
//
//   training_loop --calibrate      prints what work and calls cost here, for the other form
//   training_loop WORK_NS CALL_NS  waits on stdin for lines "FRAMEWORK_NS KERNEL_NS SECONDS", and
//                                  answers each with "STEPS LAUNCHES NS CPU_NS". With a negative
//                                  KERNEL_NS, steps have nothing but their launches
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>

#include "workload/kernels.h"

namespace {

using Nanoseconds = double;

constexpr unsigned launches_a_step = 100;
constexpr std::size_t batch_bytes = 4096;
// Of the host, in the driver: of a launch and of the submission of a copy.
constexpr Nanoseconds submit_ns = 4000;
// Of the GPU.
constexpr Nanoseconds copy_ns = 5000;

Nanoseconds now() {
    return std::chrono::duration<Nanoseconds, std::nano>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Of this process.
Nanoseconds cpu_now() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<Nanoseconds>(time.tv_sec) * 1e9 + static_cast<Nanoseconds>(time.tv_nsec);
}

// Work of the processor: unlike a wait for a time, it is not done while another thread has the CPU.
void work(std::uint64_t units) {
    std::uint64_t state = units;
    for (std::uint64_t i = 0; i < units; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        __asm__ volatile("" : "+r"(state));
    }
}

struct Speed {
    Nanoseconds work_ns = 1;  // one unit of work
    Nanoseconds call_ns = 0;  // a launch of the stand-ins, without work

    [[nodiscard]] std::uint64_t units(Nanoseconds time) const {
        return static_cast<std::uint64_t>(std::max(0.0, time) / work_ns);
    }
};

struct Rate {
    Nanoseconds framework_ns = 0;  // of the host, between two launches
    Nanoseconds kernel_ns = 0;     // of the GPU
    [[nodiscard]] bool only_launches() const { return kernel_ns < 0; }
};

// In the middle of each call of the stand-ins. Of the two layers, the driver's works.
void work_in_driver(const char *function, void *units) {
    if (std::strncmp(function, "cuda", 4) != 0) {
        work(*static_cast<const std::uint64_t *>(units));
    }
}

// A GPU with one stream, which runs one thing after the other.
class Gpu {
public:
    void submit(Nanoseconds takes) { free_at_ = std::max(free_at_, now()) + takes; }
    // As CUDA waits by default.
    void wait() const {
        while (now() < free_at_) {
        }
    }

private:
    Nanoseconds free_at_ = 0;
};

class Loop {
public:
    explicit Loop(const Speed &speed)
        : speed_(speed), submit_units_(speed.units(submit_ns - speed.call_ns)) {
        cudaMalloc(&device_, batch_bytes);
        standin_set_hook(work_in_driver, &submit_units_);
    }
    ~Loop() {
        standin_set_hook(nullptr, nullptr);
        cudaFree(device_);
    }
    Loop(const Loop &) = delete;
    Loop &operator=(const Loop &) = delete;

    void step(const Rate &rate) {
        if (rate.only_launches()) {
            launch_all(rate);
            return;
        }
        copy_batch();
        launch_all(rate);
        cudaMemcpyAsync(host_.data(), device_, sizeof(float), standin::kDeviceToHost, nullptr);
        gpu_.submit(copy_ns);
        gpu_.wait();
        cudaStreamSynchronize(nullptr);
    }

private:
    void launch_all(const Rate &rate) {
        const std::uint64_t framework = speed_.units(rate.framework_ns);
        for (unsigned i = 0; i < launches_a_step; i++) {
            work(framework);
            launch_one(i);
            cudaGetLastError();  // PyTorch checks each launch
            gpu_.submit(std::max(0.0, rate.kernel_ns));
        }
    }

    void copy_batch() {
        for (int i = 0; i < 2; i++) {
            cudaMemcpyAsync(device_, host_.data(), batch_bytes, standin::kHostToDevice, nullptr);
            gpu_.submit(copy_ns);
        }
    }

    // A few kernels and shapes, as a model has.
    void launch_one(unsigned i) {
        auto *memory = static_cast<float *>(device_);
        const standin::Dim3 grid{1U << (i % 4), 1, 1};
        if (i % 3 == 0) {
            demo::launch(grid, {256, 1, 1}, vectorAdd, memory, memory, memory, 1);
        } else if (i % 3 == 1) {
            demo::launch(grid, {128, 1, 1}, saxpy, 1, 2.0F, memory, memory);
        } else {
            demo::launch(grid, {512, 1, 1}, demo::reduce<float>, memory, memory, 1);
        }
    }

    Speed speed_;
    std::uint64_t submit_units_;
    Gpu gpu_;
    void *device_ = nullptr;
    std::array<char, batch_bytes> host_{};
};

// The best of several turns: in the others, another program had the CPU.
template <typename Action>
Nanoseconds best_of(unsigned times, Action &&action) {
    Nanoseconds best = 1e12;
    for (int turn = 0; turn < 21; turn++) {
        const Nanoseconds began = now();
        action();
        best = std::min(best, (now() - began) / times);
    }
    return best;
}

void calibrate() {
    constexpr unsigned units = 1'000'000;
    const Nanoseconds work_ns = best_of(units, [] { work(units); });
    std::uint64_t none = 0;
    Gpu gpu;
    const Nanoseconds call_ns = best_of(10 * launches_a_step, [&] {
        for (unsigned i = 0; i < 10 * launches_a_step; i++) {
            demo::launch({1, 1, 1}, {128, 1, 1}, saxpy, 1, 2.0F,
                         static_cast<const float *>(nullptr), static_cast<float *>(nullptr));
            cudaGetLastError();
            work_in_driver("cu", &none);
            gpu.submit(0);
        }
    });
    std::printf("%.6f %.1f\n", work_ns, call_ns);
}

void answer(std::uint64_t steps, Nanoseconds took, Nanoseconds cpu) {
    std::printf("%llu %llu %.0f %.0f\n", static_cast<unsigned long long>(steps),
                static_cast<unsigned long long>(steps * launches_a_step), took, cpu);
    std::fflush(stdout);
}

// At least one step.
void run(Loop &loop, const Rate &rate, double seconds) {
    const Nanoseconds began = now();
    const Nanoseconds cpu_began = cpu_now();
    std::uint64_t steps = 0;
    Nanoseconds ended = began;
    do {
        loop.step(rate);
        steps++;
        ended = now();
    } while (ended - began < seconds * 1e9);
    answer(steps, ended - began, cpu_now() - cpu_began);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::string(argv[1]) == "--calibrate") {
        calibrate();
        return 0;
    }
    if (argc != 3) {
        std::fputs("usage: training_loop --calibrate | WORK_NS CALL_NS\n", stderr);
        return 1;
    }
    Loop loop({std::strtod(argv[1], nullptr), std::strtod(argv[2], nullptr)});
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        Rate rate;
        double seconds = 0;
        if (!(words >> rate.framework_ns >> rate.kernel_ns >> seconds)) {
            std::fprintf(stderr, "training_loop: not a rate: %s\n", line.c_str());
            return 1;
        }
        run(loop, rate, seconds);
    }
    return 0;
}
