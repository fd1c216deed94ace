// The measured costs, and the tables that are made of them.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/call_cost/ways.h"
#include "bench/call_cost/workloads.h"

namespace gpusnoop::bench {

class Costs {
public:
    Costs(const std::vector<Workload> &workloads, const std::vector<Way> &ways);

    // One round's nanoseconds a call.
    void add(std::size_t workload, std::size_t way, double nanoseconds);

    // A row for each call and way to trace it.
    void print_costs() const;
    // How much of what others add our sessions add.
    void print_comparison() const;

private:
    using Rounds = std::vector<double>;

    [[nodiscard]] const Rounds &of(std::size_t workload, std::size_t way) const;
    // What the way adds to a call, over what another one adds, round by round.
    [[nodiscard]] Rounds ratios(std::size_t workload, std::size_t way, std::size_t other) const;
    void print_row(std::size_t workload, std::size_t way) const;

    const std::vector<Workload> &workloads_;
    const std::vector<Way> &ways_;
    std::vector<Rounds> rounds_;
};

}  // namespace gpusnoop::bench
