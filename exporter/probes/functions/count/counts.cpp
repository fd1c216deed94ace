// The part of FunctionsAggregator for the counts besides the families.
#include <utility>

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

std::vector<CallsOfFunction> FunctionsAggregator::take_calls() {
    std::vector<CallsOfFunction> calls;
    processes_.for_each([&](Process &process) {
        for (auto one = process.functions.begin(); one != process.functions.end(); ++one) {
            Counted &counted = one.value();
            const std::uint64_t before = std::exchange(counted.taken, counted.totals.calls);
            if (counted.taken > before && !process.ended) {
                calls.push_back({process.key, one.key(), counted.taken - before});
            }
        }
    });
    return calls;
}

// Several places and files can be shown as one function.
void FunctionsAggregator::count_unobserved() {
    for (const UnobservedFunction &function : settings_.take_unobserved()) {
        families_.unobserved.add(families_.unobserved.slot(0, {function.library, function.name}),
                                 static_cast<std::uint64_t>(function.time.count()));
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
