// The measured costs, and the tables of them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/call_cost/ways.h"
#include "bench/call_cost/workloads.h"
#include "bench/results/results.h"

namespace gpusnoop::bench {

class Costs {
public:
    Costs(const std::vector<Workload> &workloads, const std::vector<Way> &ways);

    // Nanoseconds a call, in one round.
    void add(std::size_t workload, std::size_t way, double nanoseconds);

    // Adds a row for each call and way to trace it, a row that compares our added time with each
    // other tool's, and the figures with bars. `entry`: the first instruction of the functions.
    void report(const std::string &entry, const std::string &how, Results &results) const;

private:
    using Rounds = std::vector<double>;

    [[nodiscard]] const Rounds &of(std::size_t workload, std::size_t way) const;
    // The time that the way adds to a call, divided by the time that another one adds, by round.
    [[nodiscard]] Rounds ratios(std::size_t workload, std::size_t way, std::size_t other) const;
    [[nodiscard]] std::vector<std::string> row(std::size_t workload, std::size_t way) const;
    [[nodiscard]] Table costs(const std::string &entry, const std::string &how) const;
    [[nodiscard]] Table comparison(const std::string &entry) const;
    [[nodiscard]] std::string limit(std::size_t workload, std::size_t way, std::size_t other) const;
    void add_bars(const std::string &entry, std::size_t workload, std::size_t way,
                  Results &results) const;

    const std::vector<Workload> &workloads_;
    const std::vector<Way> &ways_;
    std::vector<Rounds> rounds_;
};

}  // namespace gpusnoop::bench
