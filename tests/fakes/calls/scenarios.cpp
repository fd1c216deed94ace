// All scenarios, and the one about depth.
#include <atomic>
#include <thread>

#include "calls/around.h"
#include "calls/calls_cpp.h"
#include "calls/scenario.h"

namespace scenario {

namespace {

bool recurse_to(int depth) {
    return around(CALLS_recurse, [&] { return calls_recurse(depth); }) == depth * (depth + 1) / 2 &&
           around(CALLS_cpp_recurse, [&] { return calls::recurse(depth); }) ==
               depth * (depth + 1) / 2;
}

// As deep as the kernel has return probes for: 64 calls.
bool recursion(const Options & /*options*/) {
    bool right = true;
    for (int depth = 0; depth < 64; depth++) {
        right = recurse_to(depth) && right;
    }
    return right;
}

bool deep_recursion(const Options & /*options*/) {
    return recurse_to(64) && recurse_to(200) && recurse_to(1);
}

// More threads than a table of threads would hold, each gone before the next.
bool many_threads(const Options & /*options*/) {
    std::atomic<bool> right = true;
    for (int i = 0; i < 1000; i++) {
        std::jthread([&] {
            if (!recurse_to(2)) {
                right = false;
            }
        });
    }
    return right;
}

}  // namespace

std::vector<Scenario> all_scenarios() {
    std::vector<Scenario> all = {
        {"mix", mix},
        {"mix_with_leaving", mix_with_leaving},
        {"recursion", recursion},
        {"deep_recursion", deep_recursion, 0, "lossy"},
        {"many_threads", many_threads},
        {"sleep", sleep_now_and_then},
        {"dear_and_rare", dear_and_rare},
    };
    const auto leaving = leaving_scenarios();
    all.insert(all.end(), leaving.begin(), leaving.end());
    return all;
}

}  // namespace scenario
