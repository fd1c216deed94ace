// The measurements of a consumer.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/consumer/consumers.h"
#include "bench/consumer/flood.h"
#include "bench/consumer/processes.h"
#include "bench/results/results.h"
#include "exporter/base/result.h"

namespace gpusnoop::bench {

inline constexpr unsigned most_processes = 128;
inline constexpr unsigned usual_processes = 8;  // if their number does not matter

// The duration and number of measurements.
struct Effort {
    std::vector<unsigned> processes = {1, 8, 10, 64, 100};
    unsigned rounds = 7;
    std::chrono::milliseconds turn{1000};  // of one consumer in a round
    std::vector<double> rates = {1e6, 1.5e6, 2e6, 3e6, 4e6, 6e6, 8e6};
    std::chrono::milliseconds rate_time{3000};
    std::chrono::seconds long_time{60};
    std::chrono::milliseconds scrape_interval{15'000};  // in the long time
};
Effort quick_effort();

// Both consumers, each with its own rings and writer.
struct Bench {
    Cpus cpus;
    Processes processes;
    std::unique_ptr<Exporter> exporter;
    std::unique_ptr<Counter> counter;
    Flood to_exporter;
    Flood to_counter;

    // Moves this thread to the writer's CPU.
    static Result<Bench> start(std::size_t processes);
};

// CPU time an event, of the exporter divided by the counter's, by number of sending processes.
Result<> measure_cost(Bench &bench, const Effort &effort, Results &results);

// CPU time and wakeups a second, by number of events a second.
Result<> measure_load(Bench &bench, const Effort &effort, Results &results);

// The highest rate without a lost event, and whether one million and four a second run without loss
// for long.
Result<> measure_loss(Bench &bench, const Effort &effort, Results &results);

// Fails unless the exporter has counted every launch that was written.
Result<> check_count(Bench &bench);

}  // namespace gpusnoop::bench
