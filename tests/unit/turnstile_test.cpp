// Who is let in, and who is turned away.
#include "exporter/base/turnstile.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <vector>

using gpusnoop::Turnstile;

TEST_CASE("a turnstile lets so many in, and another one for each that leaves") {
    Turnstile turnstile(2);
    auto first = turnstile.enter();
    const auto second = turnstile.enter();
    CHECK(first);
    CHECK(second);
    CHECK_FALSE(turnstile.enter());
    CHECK_FALSE(turnstile.enter());
    first.reset();
    const auto third = turnstile.enter();
    CHECK(third);
    CHECK_FALSE(turnstile.enter());
}

TEST_CASE("a turnstile never has more in than it may, whatever number of threads come") {
    constexpr int most = 3;
    Turnstile turnstile(most);
    std::atomic<int> inside = 0;
    std::atomic<int> too_many = 0;
    std::atomic<int> let_in = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 8; i++) {
            threads.emplace_back([&] {
                for (int turn = 0; turn < 20'000; turn++) {
                    if (const auto pass = turnstile.enter()) {
                        too_many += ++inside > most ? 1 : 0;
                        let_in++;
                        inside--;
                    }
                }
            });
        }
    }
    CHECK(too_many == 0);
    CHECK(let_in > 0);
    std::vector<Turnstile::Pass> all;
    for (int i = 0; i < most; i++) {
        all.push_back(turnstile.enter());
        CHECK(all.back());
    }
    CHECK_FALSE(turnstile.enter());
}
