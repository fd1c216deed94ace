#include "bench/call_cost/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/results/statistics.h"

namespace gpusnoop::bench {

namespace {

bool is_session_of_ours(const Way &way) {
    return way.kind == Way::Kind::ours && way.name.find(", session, ") != std::string::npos;
}

// Compared with empty programs, which cost two entries into the kernel: a named function, a copy or
// a launch, an allocation and its free with call stacks. Counted launches are compared with those
// that are seen to their end.
double most_over_floor(const Way &way, const Workload &workload) {
    if (way.job == Way::Job::count) {
        return 0.45;
    }
    if (!way.keeps_books) {
        return 1.20;
    }
    return workload.functions.front() == "cudaMalloc" ? 1.35 : 1.25;
}

// funclatency only adds to a histogram of all functions together.
double most_of_other(const Way &other) {
    return other.name.starts_with("funclatency") ? 1.0 : 0.75;
}

std::string bar_text(double bar) {
    return fmt::format("<= {}x", bar);
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

std::vector<std::string> Costs::row(std::size_t workload, std::size_t way) const {
    const Rounds &all = of(workload, way);
    std::vector<std::string> cells = {
        workloads_[workload].name, ways_[way].name, fmt::format("{:.0f}", median(all)),
        fmt::format("{:.0f} to {:.0f}", quantile(all, 0.1), quantile(all, 0.9))};
    cells.push_back(way == 0 ? "" : fmt::format("{:.0f}", median(all) - median(of(workload, 0))));
    cells.push_back(ways_[way].floor ? ratio_text(ratios(workload, way, *ways_[way].floor)) : "");
    return cells;
}

Table Costs::costs(const std::string &entry, const std::string &how) const {
    Table table{fmt::format("Cost of a traced call, {} entry", entry),
                how,
                {"call", "traced by", "ns per call", "10 % to 90 %", "added ns",
                 "added, over empty programs attached the same way"}};
    for (std::size_t workload = 0; workload < workloads_.size(); workload++) {
        for (std::size_t way = 0; way < ways_.size(); way++) {
            if (ways_[way].concerns(workloads_[workload])) {
                table.rows.push_back(row(workload, way));
            }
        }
    }
    return table;
}

Table Costs::comparison(const std::string &entry) const {
    Table table{
        fmt::format("Added cost relative to other tools, {} entry", entry),
        "From the same rounds: the time that our session probes add to a call, divided by the "
        "time that the tool in the second column adds.",
        {"call", "other tool"}};
    std::vector<std::size_t> ours;
    for (std::size_t way = 0; way < ways_.size(); way++) {
        if (is_session_of_ours(ways_[way])) {
            ours.push_back(way);
            table.columns.push_back(ways_[way].name);
        }
    }
    for (std::size_t workload = 0; workload < workloads_.size(); workload++) {
        for (std::size_t way = 0; way < ways_.size(); way++) {
            if (ways_[way].kind != Way::Kind::other || !ways_[way].concerns(workloads_[workload])) {
                continue;
            }
            std::vector<std::string> row = {workloads_[workload].name, ways_[way].name};
            for (const std::size_t own : ours) {
                row.push_back(ways_[own].concerns(workloads_[workload])
                                  ? ratio_text(ratios(workload, own, way))
                                  : "");
            }
            table.rows.push_back(std::move(row));
        }
    }
    return table;
}

// Why a bar is missed: how far the programs get that do less, in the same rounds.
std::string Costs::limit(std::size_t workload, std::size_t way, std::size_t other) const {
    const Way &own = ways_[way];
    std::string text = "floor: ";
    if (other != *own.floor) {
        text += fmt::format("empty programs are at {}, ",
                            ratio_text(ratios(workload, *own.floor, other)));
    }
    if (own.least_of_many) {
        return text + fmt::format("the least counter of each kernel and shape is at {}",
                                  ratio_text(ratios(workload, *own.least_of_many, other)));
    }
    text +=
        fmt::format("the least record is at {}", ratio_text(ratios(workload, *own.least, other)));
    if (ways_[other].job == Way::Job::memory) {
        text += "; the bpftrace script neither walks stacks nor sends records";
    }
    return text;
}

// Compared with untraced calls, and with other tools that do the same for the same functions.
void Costs::add_bars(const std::string &entry, std::size_t workload, std::size_t way,
                     Results &results) const {
    const Way &own = ways_[way];
    const std::string what =
        fmt::format("{}, {}, {} entry", workloads_[workload].name, own.name, entry);
    const auto add = [&](std::size_t other, double most) {
        const Rounds over = ratios(workload, way, other);
        results.bars.push_back({fmt::format("{}: over {}", what, ways_[other].name), bar_text(most),
                                ratio_text(over), median(over) <= most,
                                limit(workload, way, other)});
    };
    if (own.job == Way::Job::latency || own.job == Way::Job::count) {
        add(*own.floor, most_over_floor(own, workloads_[workload]));
    }
    if (own.job == Way::Job::count) {
        add(*own.least, 1.15);
    }
    for (std::size_t other = 0; other < ways_.size(); other++) {
        if (ways_[other].kind == Way::Kind::other && ways_[other].job == own.job &&
            ways_[other].library == own.library && ways_[other].concerns(workloads_[workload])) {
            add(other, most_of_other(ways_[other]));
        }
    }
}

void Costs::report(const std::string &entry, const std::string &how, Results &results) const {
    results.tables.push_back(costs(entry, how));
    if (Table others = comparison(entry); !others.rows.empty()) {
        results.tables.push_back(std::move(others));
    }
    for (std::size_t workload = 0; workload < workloads_.size(); workload++) {
        for (std::size_t way = 0; way < ways_.size(); way++) {
            if (ways_[way].kind == Way::Kind::ours && ways_[way].job != Way::Job::none &&
                ways_[way].concerns(workloads_[workload])) {
                add_bars(entry, workload, way, results);
            }
        }
    }
}

}  // namespace gpusnoop::bench
