#include "bench/call_cost/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gpusnoop::bench {

namespace {

// Between the two values that are nearest.
double quantile(std::vector<double> values, double part) {
    std::ranges::sort(values);
    const double place = part * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const auto above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

double median(const std::vector<double> &values) {
    return quantile(values, 0.5);
}

void print_ratio(const std::vector<double> &ratios) {
    std::printf(" %.2f (%.2f to %.2f) |", median(ratios), quantile(ratios, 0.1),
                quantile(ratios, 0.9));
}

bool is_session_of_ours(const Way &way) {
    return way.kind == Way::Kind::ours && way.name.find(", session, ") != std::string::npos;
}

}  // namespace

Costs::Costs(const std::vector<Workload> &workloads, const std::vector<Way> &ways)
    : workloads_(workloads), ways_(ways), rounds_(workloads.size() * ways.size()) {}

void Costs::add(std::size_t workload, std::size_t way, double nanoseconds) {
    rounds_[workload * ways_.size() + way].push_back(nanoseconds);
}

const Costs::Rounds &Costs::of(std::size_t workload, std::size_t way) const {
    return rounds_[workload * ways_.size() + way];
}

Costs::Rounds Costs::ratios(std::size_t workload, std::size_t way, std::size_t other) const {
    const Rounds &untraced = of(workload, 0);
    Rounds ratios;
    for (std::size_t round = 0; round < untraced.size(); round++) {
        ratios.push_back((of(workload, way)[round] - untraced[round]) /
                         (of(workload, other)[round] - untraced[round]));
    }
    return ratios;
}

void Costs::print_row(std::size_t workload, std::size_t way) const {
    const Rounds &all = of(workload, way);
    std::printf("| %s | %s | %.0f | %.0f to %.0f |", workloads_[workload].name.c_str(),
                ways_[way].name.c_str(), median(all), quantile(all, 0.1), quantile(all, 0.9));
    if (way == 0) {
        std::printf(" | |\n");
        return;
    }
    std::printf(" %.0f |", median(all) - median(of(workload, 0)));
    if (ways_[way].floor) {
        print_ratio(ratios(workload, way, *ways_[way].floor));
    } else {
        std::printf(" |");
    }
    std::printf("\n");
}

void Costs::print_costs() const {
    std::printf(
        "| call | traced by | ns a call, median | 10 %% to 90 %% | added ns | added, over empty "
        "programs attached alike: median (10 %% to 90 %%) |\n|---|---|---|---|---|---|\n");
    for (std::size_t workload = 0; workload < workloads_.size(); workload++) {
        for (std::size_t way = 0; way < ways_.size(); way++) {
            if (ways_[way].concerns(workloads_[workload])) {
                print_row(workload, way);
            }
        }
    }
}

void Costs::print_comparison() const {
    std::vector<std::size_t> ours;
    std::printf("| call | what ours adds, over what is added by |");
    for (std::size_t way = 0; way < ways_.size(); way++) {
        if (is_session_of_ours(ways_[way])) {
            ours.push_back(way);
            std::printf(" %s |", ways_[way].name.c_str());
        }
    }
    std::printf("\n|---|---|");
    for (std::size_t i = 0; i < ours.size(); i++) {
        std::printf("---|");
    }
    std::printf("\n");
    for (std::size_t workload = 0; workload < workloads_.size(); workload++) {
        for (std::size_t way = 0; way < ways_.size(); way++) {
            if (ways_[way].kind != Way::Kind::other || !ways_[way].concerns(workloads_[workload])) {
                continue;
            }
            std::printf("| %s | %s |", workloads_[workload].name.c_str(), ways_[way].name.c_str());
            for (const std::size_t own : ours) {
                if (ways_[own].concerns(workloads_[workload])) {
                    print_ratio(ratios(workload, own, way));
                } else {
                    std::printf(" |");
                }
            }
            std::printf("\n");
        }
    }
}

}  // namespace gpusnoop::bench
