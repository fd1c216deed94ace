// The part of FunctionsAggregator for the counts besides the families.

#include <algorithm>
#include <cstddef>
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

// The part of FunctionsAggregator for configuration changes: functions, and the way they are
// counted, change while it counts.

using std::chrono::nanoseconds;

void FunctionsAggregator::refresh(const std::vector<FunctionInfoPtr> &replaced, nanoseconds now) {
    forget_slots(!replaced.empty());
    if (replaced.empty()) {
        return;
    }
    const auto used = in_use();
    std::map<ShownAs, const InUse *> with_durations;
    for (const FunctionInfoPtr &function : replaced) {
        const ShownAs as{function->library, function->name};
        retained_.removed.insert_or_assign(as, now);
        if (const auto found = used.find(as);
            found != used.end() && !found->second.bounds.empty()) {
            with_durations.emplace(as, &found->second);
        }
    }
    // A histogram with new buckets replaces the old one: a page cannot have two of one name.
    for (auto &[bounds, family] : durations_) {
        const auto is_gone = [&, &bounds = bounds](const series::LabelValues &values) {
            const auto found = with_durations.find(shown_as(values));
            return found != with_durations.end() && !found->second->bounds.contains(bounds);
        };
        family->remove_if(is_gone);
        std::erase_if(shown_, [&, family = family](const auto &entry) {
            return entry.second.durations == family && is_gone(entry.first.second);
        });
    }
}

// Slots are looked up again at the next call. All of them before label sets are removed; else those
// of numbers that have another function now, or none.
void FunctionsAggregator::forget_slots(bool all) {
    processes_.for_each([&](Process &process) {
        keep_exemplars(process);
        for (auto one = process.functions.begin(); one != process.functions.end();) {
            const Counted &counted = one.value();
            const bool is_same = table_->find(one.key()) == counted.function;
            if (is_same && !all) {
                ++one;
                continue;
            }
            if (is_same) {
                process.not_taken[one.key()] += counted.totals.calls - counted.taken;
            }
            keep({counted.function, counted.totals, counted.minute}, process.former);
            one = process.functions.erase(one);
        }
    });
}

void FunctionsAggregator::forget_removed(nanoseconds now) {
    std::map<ShownAs, InUse> gone;
    std::erase_if(retained_.removed, [&](const auto &entry) {
        const bool expired = now - entry.second >= settings_.retention;
        if (expired) {
            gone.try_emplace(entry.first);
        }
        return expired;
    });
    if (gone.empty()) {
        return;
    }
    forget_slots(true);
    const auto used = in_use();
    const auto remove = [&](series::Family &family, auto is_used) {
        family.remove_if([&](const series::LabelValues &values) {
            const ShownAs as = shown_as(values);
            const auto found = used.find(as);
            return gone.contains(as) && (found == used.end() || !is_used(found->second));
        });
    };
    for (series::Family *family :
         {&families_.calls, &families_.nccl_operations, &families_.nccl_bytes}) {
        remove(*family, [](const InUse &) { return true; });
    }
    remove(families_.errors, [](const InUse &of) { return of.errors; });
    remove(families_.slow_calls, [](const InUse &of) { return of.slow_calls; });
    const auto has_durations = [](const InUse &of) { return !of.bounds.empty(); };
    for (auto &[bounds, family] : durations_) {
        remove(*family, has_durations);
    }
    std::erase_if(shown_, [&](const auto &entry) {
        const ShownAs as = shown_as(entry.first.second);
        const auto found = used.find(as);
        return gone.contains(as) && (found == used.end() || !has_durations(found->second));
    });
}

std::map<FunctionsAggregator::ShownAs, FunctionsAggregator::InUse> FunctionsAggregator::in_use()
    const {
    std::map<ShownAs, InUse> used;
    for (const FunctionInfoPtr &function : table_->all()) {
        InUse &of = used[{function->library, function->name}];
        const FunctionOptions &options = function->options;
        if (!options.entry_only) {
            of.slow_calls = of.slow_calls || options.slow_threshold.has_value();
            of.errors = of.errors || options.errors != ErrorKind::none;
            of.bounds.insert(call_bounds(options));
        }
    }
    return used;
}

// The labels after the labels of the process.
FunctionsAggregator::ShownAs FunctionsAggregator::shown_as(
    const series::LabelValues &values) const {
    const std::size_t library = series::process_labels(settings_.pid_label).size();
    return {values.at(library), values.at(library + 1)};
}

}  // namespace gpusnoop::probes
