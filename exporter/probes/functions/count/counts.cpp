// The part of FunctionsAggregator for the extra series of a few functions, and for the counts
// besides the families.
#include "exporter/probes/functions/count/aggregator.h"

namespace gpusnoop::probes {

namespace {

// For one function in one process; further operations are counted as "other".
constexpr std::size_t max_nccl_operations = 256;

}  // namespace

void FunctionsAggregator::count_nccl(Process &process, Counted &counted,
                                     const func_arguments_record &arguments) {
    const auto count = process.communicators.take(*counted.function->nccl, arguments);
    if (!count) {
        return;
    }
    auto found = counted.nccl.find(count->operation);
    if (found == counted.nccl.end()) {
        const NcclOperation &shown =
            counted.nccl.size() < max_nccl_operations
                ? count->operation
                : NcclOperation{
                      .datatype = "other", .op = "other", .rank = "other", .nranks = "other"};
        auto values = labels(process, *counted.function);
        values.insert(values.end(), {shown.datatype, shown.op, shown.rank, shown.nranks});
        found = counted.nccl
                    .try_emplace(shown, families_.nccl_operations.slot(process.owner, values),
                                 families_.nccl_bytes.slot(process.owner, values))
                    .first;
    }
    families_.nccl_operations.add(found->second.first, 1);
    families_.nccl_bytes.add(found->second.second, count->bytes.value_or(0));
}

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
