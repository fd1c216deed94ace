// The part of FuncAggregator that copies what is counted besides the families.
#include "exporter/probes/func_aggregator.h"

namespace gpusnoop::probes {

void FuncAggregator::keep_totals(const Process &process, Totals &totals) {
    const auto keep = [&](const FuncCount &count) {
        FuncCount &kept = totals[{count.function->library, count.function->name}];
        kept.function = count.function;
        kept.add(count);
    };
    for (const auto &[number, counted] : process.functions) {
        keep({counted.function, counted.totals, counted.minute});
    }
    if (&totals != &process.former) {
        for (const auto &[shown_as, count] : process.former) {
            keep(count);
        }
    }
}

FuncSnapshot FuncAggregator::snapshot(std::chrono::nanoseconds now) const {
    FuncSnapshot snapshot{.taken = now, .processes = {}, .ended = {}};
    for (const auto &[shown_as, count] : ended_) {
        snapshot.ended.push_back(count);
    }
    for (const auto &[key, process] : processes_) {
        std::vector<FuncCount> functions;
        functions.reserve(process->functions.size());
        for (const auto &[number, counted] : process->functions) {
            functions.push_back({counted.function, counted.totals, counted.minute});
        }
        for (const auto &[shown_as, count] : process->former) {
            functions.push_back(count);
        }
        if (process->ended) {  // it is about to be tidied up
            snapshot.ended.insert(snapshot.ended.end(), functions.begin(), functions.end());
        } else {
            snapshot.processes.push_back(
                {key.tgid, process->comm, process->container, std::move(functions)});
        }
    }
    return snapshot;
}

}  // namespace gpusnoop::probes
