// The part of FunctionsAggregator for configuration changes: functions, and the way they are
// counted, change while it counts.
#include <cstddef>

#include "exporter/probes/functions/count/aggregator.h"

namespace gpusnoop::probes {

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
