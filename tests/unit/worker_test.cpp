// Tasks of many threads, run by one.
#include "exporter/base/worker.h"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using gpusnoop::Worker;

TEST_CASE("a worker runs what many threads ask for, one by one, in one thread") {
    constexpr int threads = 8;
    constexpr int turns = 500;
    Worker worker;
    const auto id = worker.run([] { return std::this_thread::get_id(); });
    CHECK(id != std::this_thread::get_id());
    int count = 0;  // of the worker's thread alone
    int elsewhere = 0;
    {
        std::vector<std::jthread> asking;
        for (int i = 0; i < threads; i++) {
            asking.emplace_back([&] {
                for (int turn = 0; turn < turns; turn++) {
                    worker.run([&] {
                        count++;
                        elsewhere += std::this_thread::get_id() == id ? 0 : 1;
                    });
                }
            });
        }
    }
    CHECK(worker.run([&] { return count; }) == threads * turns);
    CHECK(elsewhere == 0);
}

TEST_CASE("what a worker's task throws reaches who asked, and the worker goes on") {
    Worker worker;
    CHECK_THROWS_AS(worker.run([]() -> int { throw std::runtime_error("no"); }),
                    std::runtime_error);
    CHECK(*worker.run([] { return std::make_unique<int>(7); }) == 7);
}
