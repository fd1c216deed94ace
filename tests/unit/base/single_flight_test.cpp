#include "exporter/base/single_flight.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace gpusnoop;

TEST_CASE("the work is run for whoever asks, and its result returned") {
    int runs = 0;
    SingleFlight work([&]() -> Result<> {
        runs++;
        return runs == 2 ? Result<>(fail("no")) : Result<>();
    });
    CHECK(work.run());
    CHECK(work.run().error().message == "no");
    CHECK(work.run());
    CHECK(runs == 3);
}

TEST_CASE("what the work throws is a failure, and the next run is as any") {
    int runs = 0;
    SingleFlight work([&]() -> Result<> {
        if (++runs == 1) {
            throw std::runtime_error("thrown");
        }
        return {};
    });
    CHECK(work.run().error().message == "thrown");
    CHECK(work.run());
}

TEST_CASE("those who ask during a run share one that begins later") {
    std::atomic<int> runs = 0;
    std::latch running(1);
    std::latch may_end(1);
    SingleFlight work([&]() -> Result<> {
        if (++runs == 1) {
            running.count_down();
            may_end.wait();
        }
        return {};
    });
    std::jthread first([&] { (void)work.run(); });
    running.wait();
    {
        std::latch about_to_ask(8);
        std::vector<std::jthread> others;
        for (int i = 0; i < 8; i++) {
            others.emplace_back([&] {
                about_to_ask.count_down();
                (void)work.run();
            });
        }
        about_to_ask.wait();
        CHECK(runs == 1);
        may_end.count_down();
    }
    first.join();
    // One for all of them; one that asked only after that had begun has had another.
    CHECK(runs >= 2);
    CHECK(runs <= 9);
}

TEST_CASE("everybody has a run that began after asking") {
    std::atomic<int> wanted = 0;
    std::atomic<int> seen = 0;
    std::atomic<bool> is_running = false;
    std::atomic<bool> overlapped = false;
    SingleFlight work([&]() -> Result<> {
        overlapped = overlapped || is_running.exchange(true);
        seen = wanted.load();
        is_running = false;
        return {};
    });
    std::atomic<bool> missed = false;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 8; i++) {
            threads.emplace_back([&] {
                for (int j = 0; j < 500; j++) {
                    const int mine = ++wanted;
                    (void)work.run();
                    missed = missed || seen < mine;
                }
            });
        }
    }
    CHECK_FALSE(missed);
    CHECK_FALSE(overlapped);
    CHECK(seen == 4'000);
}
