// The scenarios of captures and graphs.

#pragma once

#include "graphs/calls.h"
#include "workload/options.h"

#include <cstdint>
#include <random>
#include <vector>

namespace graphs {

// What a thread has before a scenario begins, and until all threads are at its end: while one
// captures, others may not be free to allocate.
struct Thread {
    Calls &calls;
    const demo::Options &options;
    unsigned index;
    std::mt19937_64 generator;
    std::uint64_t replays;
    Stream stream = nullptr;  // these do not wait for the legacy stream
    Stream other = nullptr;
    Event event = nullptr;
    Event other_event = nullptr;
    void *device = nullptr;
    std::vector<char> host{};

    static constexpr std::size_t kBytes = 65536;

    std::uint64_t random(std::uint64_t below) { return generator() % below; }
    Copy to_device(std::size_t bytes);
    Copy to_host(std::size_t bytes);
    Copy on_device(std::size_t bytes);
};

struct Scenario {
    const char *name;
    void (*run)(Thread &thread);
    // Only for one thread: its captures forbid things to others, or it ends the process.
    bool alone = false;
};

// Says what was expected, and that the program failed, unless `error` is `wanted`.
void expect(int error, int wanted, const char *what, int line);
bool all_as_expected();

#define EXPECT(wanted, call) graphs::expect(call, wanted, #call, __LINE__)
#define OK(call) EXPECT(0, call)

std::vector<Scenario> capture_scenarios();
std::vector<Scenario> invalid_scenarios();
std::vector<Scenario> graph_scenarios();
std::vector<Scenario> mixed_scenarios();

}  // namespace graphs
