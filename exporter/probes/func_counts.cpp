// The part of FuncAggregator that copies what is counted besides the families.
#include "exporter/probes/func_aggregator.h"

namespace gpusnoop::probes {

void FuncAggregator::keep_totals(const Process &process) {
    for (const auto &[number, counted] : process.functions) {
        FuncCount &kept = ended_[number];
        kept.function = counted.function;
        kept.add({counted.function, counted.totals, counted.minute});
    }
}

FuncSnapshot FuncAggregator::snapshot(std::chrono::nanoseconds now) const {
    FuncSnapshot snapshot{.taken = now, .processes = {}, .ended = {}};
    for (const auto &[number, count] : ended_) {
        snapshot.ended.push_back(count);
    }
    for (const auto &[key, process] : processes_) {
        std::vector<FuncCount> functions;
        functions.reserve(process->functions.size());
        for (const auto &[number, counted] : process->functions) {
            functions.push_back({counted.function, counted.totals, counted.minute});
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
