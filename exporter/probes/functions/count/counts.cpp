// The part of FunctionsAggregator for the counts besides the families.
#include "exporter/probes/functions/count/aggregator.h"

namespace gpusnoop::probes {

void FunctionsAggregator::keep_totals(const Process &process, Totals &totals) {
    const auto keep = [&](const FunctionCount &count) {
        FunctionCount &kept = totals[{count.function->library, count.function->name}];
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

FunctionsSnapshot FunctionsAggregator::snapshot(std::chrono::nanoseconds now) const {
    FunctionsSnapshot snapshot{.taken = now, .processes = {}, .ended = {}};
    for (const auto &[shown_as, count] : ended_) {
        snapshot.ended.push_back(count);
    }
    processes_.for_each([&](const Process &process) {
        std::vector<FunctionCount> functions;
        functions.reserve(process.functions.size());
        for (const auto &[number, counted] : process.functions) {
            functions.push_back({counted.function, counted.totals, counted.minute});
        }
        for (const auto &[shown_as, count] : process.former) {
            functions.push_back(count);
        }
        if (process.ended) {  // it will be removed soon
            snapshot.ended.insert(snapshot.ended.end(), functions.begin(), functions.end());
        } else {
            snapshot.processes.push_back({process.key.tgid, process, std::move(functions)});
        }
    });
    return snapshot;
}

}  // namespace gpusnoop::probes
