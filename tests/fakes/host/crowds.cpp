#include "host/crowds.h"

#include "host/notes.h"
#include "host/states.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

namespace spends {

void crowd(int threads, int ms, const std::function<void()> &launch) {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    for (int begun = 0; begun < threads; begun += 10) {
        std::array<std::uint64_t, 10> began{};
        std::array<std::atomic<std::uint64_t>, 10> inner{};
        std::vector<std::thread> all;
        for (std::size_t i = 0; i < began.size(); i++) {
            all.emplace_back([&, i] {
                began[i] = wall_ns();
                launch();
                const std::uint64_t launched = wall_ns();
                sleep_for(ms);
                inner[i] = wall_ns() - launched;
            });
        }
        for (std::size_t i = 0; i < began.size(); i++) {
            all[i].join();
            least += inner[i];
            most += wall_ns() - began[i];
        }
    }
    std::printf("crowd %llu %llu\n", static_cast<unsigned long long>(least),
                static_cast<unsigned long long>(most));
}

void turns(int times, int ms, const std::function<void()> &launch) {
    std::mutex mutex;
    std::condition_variable turned;
    int turn = 0;
    std::uint64_t before_last = 0;
    std::uint64_t after_last = 0;
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    const auto launches = [&](int self) {
        for (int i = 0; i < times; i++) {
            std::unique_lock lock(mutex);
            turned.wait(lock, [&] { return turn == self; });
            sleep_for(ms);
            const std::uint64_t before = wall_ns();
            launch();
            const std::uint64_t after = wall_ns();
            if (i > 0) {
                least += before - after_last;
                most += after - before_last;
            }
            before_last = before;
            after_last = after;
            turn = 1 - self;
            turned.notify_all();
        }
    };
    std::thread other(launches, 1);
    launches(0);
    other.join();
    std::printf("turns %llu %llu\n", static_cast<unsigned long long>(least),
                static_cast<unsigned long long>(most));
}

}  // namespace spends
