// The part of FunctionsAggregator for the counts besides the families.

#include <algorithm>
#include <set>
#include <utility>

#include "exporter/probes/functions/count/aggregator.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

void FunctionsAggregator::keep(const FunctionCount &count, Totals &totals) {
    FunctionCount &kept = totals[{count.function->library, count.function->name}];
    kept.function = count.function;
    kept.add(count);
}

void FunctionsAggregator::keep_totals(const Process &process, Totals &totals) {
    for (const auto &[number, counted] : process.functions) {
        keep({counted.function, counted.totals, counted.minute}, totals);
    }
    for (const auto &[shown_as, count] : process.former) {
        keep(count, totals);
    }
}

std::vector<CallsOfFunction> FunctionsAggregator::take_calls() {
    std::vector<CallsOfFunction> calls;
    processes_.for_each([&](Process &process) {
        auto not_taken = std::exchange(process.not_taken, {});
        for (auto one = process.functions.begin(); one != process.functions.end(); ++one) {
            Counted &counted = one.value();
            const std::uint64_t before = std::exchange(counted.taken, counted.totals.calls);
            if (counted.taken > before) {
                not_taken[one.key()] += counted.taken - before;
            }
        }
        for (const auto &[number, more] : not_taken) {
            if (more > 0 && !process.ended) {
                calls.push_back({process.key, number, more});
            }
        }
    });
    return calls;
}

// Several places and files can be shown as one function.
void FunctionsAggregator::count_unobserved(nanoseconds now) {
    for (const UnobservedFunction &function : settings_.take_unobserved()) {
        families_.unobserved.add(families_.unobserved.slot(0, {function.library, function.name}),
                                 static_cast<std::uint64_t>(function.time.count()));
        retained_.unobserved.insert_or_assign(ShownAs{function.library, function.name}, now);
    }
}

// Those that no file in use has, nor the configuration.
void FunctionsAggregator::forget_unobserved(nanoseconds now) {
    const auto is_old = [&](const auto &entry) {
        return now - entry.second >= settings_.retention;
    };
    if (std::ranges::none_of(retained_.unobserved, is_old)) {
        return;
    }
    const auto used = in_use();
    std::set<ShownAs> gone;
    for (auto &[as, last] : retained_.unobserved) {
        if (used.contains(as)) {
            last = now;
        } else if (now - last >= settings_.retention) {
            gone.insert(as);
        }
    }
    std::erase_if(retained_.unobserved,
                  [&](const auto &entry) { return gone.contains(entry.first); });
    families_.unobserved.remove_if([&](const series::LabelValues &values) {
        return gone.contains({values.at(0), values.at(1)});
    });
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

// The functions probe's calls that are in flight, or that never returned.

namespace {

// The cookie's lower half (FUNC_NUMBER).
std::uint32_t number_of(const struct open_call &call) {
    return static_cast<std::uint32_t>(call.cookie);
}

}  // namespace

std::optional<OpenCall> FunctionsAggregator::describe(Process &process,
                                                      const struct open_call &record) const {
    const FunctionInfoPtr function = table_->find(number_of(record));
    if (function == nullptr ||
        record.started_ns <
            static_cast<std::uint64_t>(table_->given_at(number_of(record)).count())) {
        return std::nullopt;
    }
    OpenCall call = open_call_of(process, record);
    call.library = function->library;
    call.function = function->name;
    for (const std::uint8_t position : function->options.arguments) {
        const bool is_read = position < FUNC_ARGUMENTS || (record.cookie & FUNC_SEVENTH) != 0;
        if (position >= 1 && position <= FUNC_ARGUMENTS && is_read) {
            call.arguments.emplace_back(position, record.argument[position - 1]);
        }
    }
    if (function->nccl) {
        call.nccl = process.communicators.place(*function->nccl, record.argument);
    }
    return call;
}

std::optional<OpenCall> FunctionsAggregator::open_call(const open_call_record &record) {
    auto call = describe(processes_.of({record.tgid, record.since_ns}), record.call);
    if (call) {
        call->returns_to = record.returns_to;
    }
    return call;
}

void FunctionsAggregator::on_unreturned(const func_unreturned_record &record) {
    const auto &[call, signal, unused] = record.unreturned;
    if (unreturned_.size() >= max_unreturned_calls) {
        return;
    }
    if (auto described = describe(processes_.of({record.head.tgid, record.head.since_ns}), call)) {
        UnreturnedCall &unreturned = unreturned_.emplace_back();
        static_cast<OpenCall &>(unreturned) = *std::move(described);
        unreturned.ended_ns = record.head.ended_ns;
        unreturned.signal = signal;
    } else {
        reject(number_of(call));
    }
}

}  // namespace gpusnoop::probes
