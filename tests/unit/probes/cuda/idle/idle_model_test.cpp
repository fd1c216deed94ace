// The time in which programs hold memory of a GPU and leave it idle, against a plain model.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "tests/unit/probes/cuda/idle/idle_fixture.h"

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

// One program with two processes and two GPUs. Everything happens at full seconds.
class IdleModel {
public:
    explicit IdleModel(unsigned seed) : random_(seed) {}

    void run() {
        for (int i = 0; i < 3'000; i++) {
            const bool is_quiet = is_calm() && fixture_.open->empty();
            if (random_() % (is_quiet ? 200U : 16U) == 0) {
                happen();
            }
            fixture_.pass(1s);
            count();
        }
    }

    // How long it was idle.
    [[nodiscard]] std::uint64_t check() const {
        std::uint64_t all = 0;
        for (const auto &[device, place] : places_) {
            CAPTURE(device, place.idle, place.periods);
            const std::uint64_t counted = fixture_.idled({std::to_string(device)});
            CHECK(counted <= place.idle);
            // The ends of calls and of unobserved times are seen up to two looks late, what was
            // idle after the last look is lost, and a process that begins to hold memory is not
            // idle.
            CHECK(counted + 22 * (place.periods + 1) + 95 * place.further_holders >= place.idle);
            all += place.idle;
        }
        return all;
    }

private:
    struct Place {
        std::map<std::uint32_t, std::uint64_t> held;  // by process: since when
        std::uint64_t busy = 0;
        std::uint64_t idle = 0;
        std::uint64_t periods = 0;
        std::uint64_t further_holders = 0;
        bool is_idle = false;
    };

    void happen() {
        const std::uint32_t pid = 1 + random_() % 2;
        const auto device = static_cast<std::int32_t>(random_() % 2);
        Process &process = fixture_.process(pid);
        Place &place = places_[device];
        // Long times without work are what this is about. While a call is under way, the program
        // does nothing else: that would count, and not when the call ends.
        const auto below = !fixture_.open->empty() ? 2U : is_calm() ? 3U : 6U;
        switch (random_() % below) {
            case 0:
                return call(process);
            case 1:
                calm_until_ = second() + random_() % 600;
                return;
            case 2:
                return hold_or_free(process, place, device);
            case 3:
                CudaIdleHeld::on_call(process, fixture_.at_now(CUDA_RECORD_LAUNCH, device));
                place.busy = second();
                return;
            case 4:
                CudaIdleHeld::on_call(process,
                                      fixture_.at_now(CUDA_RECORD_GRAPH, CUDA_DEVICE_UNKNOWN));
                return all_busy();
            default:
                fixture_.unseen[process.key] += 1s;
                return all_busy();
        }
    }
    [[nodiscard]] bool is_calm() const { return second() < calm_until_; }
    [[nodiscard]] std::uint64_t second() const { return fixture_.now_ns() / second_ns; }

    void hold_or_free(Process &process, Place &place, std::int32_t device) {
        const auto held = place.held.find(process.key.tgid);
        if (held == place.held.end()) {
            if (place.held.empty()) {
                place.busy = second();
            } else {
                place.further_holders++;
            }
            place.held[process.key.tgid] = second();
            fixture_.hold(process, device);
        } else {
            fixture_.memory.apply(
                process, release(allocation(0x1000 + static_cast<std::uint64_t>(device), 100,
                                            held->second * second_ns, MEMORY_device, device),
                                 fixture_.now_ns()));
            place.held.erase(held);
        }
    }
    // Begins a call, or ends it. Calls that are too short for two looks can be missed.
    void call(const Process &process) {
        const auto [open, is_new] = fixture_.open->try_emplace(process.key, fixture_.now);
        if (!is_new && fixture_.now - open->second >= 22s) {
            fixture_.open->erase(open);
        }
        all_busy();
    }
    void all_busy() {
        for (const std::int32_t device : {0, 1}) {
            places_[device].busy = second();
        }
    }
    // The second that has passed.
    void count() {
        for (auto &[device, place] : places_) {
            if (!fixture_.open->empty()) {
                place.busy = second();
            }
            const bool is_idle = !place.held.empty() && second() > place.busy + 60;
            place.idle += is_idle ? 1 : 0;
            place.periods += is_idle && !place.is_idle ? 1 : 0;
            place.is_idle = is_idle;
        }
    }

    IdleFixture fixture_;
    std::mt19937_64 random_;
    std::map<std::int32_t, Place> places_;
    std::uint64_t calm_until_ = 0;
};

}  // namespace

TEST_CASE("the idle time of a random program is never more than a model's, and hardly less") {
    std::uint64_t idle = 0;
    for (unsigned seed = 0; seed < 30; seed++) {
        CAPTURE(seed);
        IdleModel model(seed);
        model.run();
        idle += model.check();
    }
    CHECK(idle > 10'000);
}
