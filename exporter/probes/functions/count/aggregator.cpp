#include "exporter/probes/functions/count/aggregator.h"

#include <algorithm>
#include <tuple>

#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/functions/count/errors.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// A result can be any number: further results count as one code.
constexpr std::size_t max_codes = 256;
// What each takes in memory, about.
constexpr std::size_t bytes_of_code = 192;

ProcessKey key_of(const func_record &head) {
    return {head.tgid, head.since_ns};
}

nanoseconds at(const func_record &head) {
    return nanoseconds(static_cast<std::int64_t>(head.ended_ns));
}

}  // namespace

FunctionsAggregator::FunctionsAggregator(FunctionsSettings settings, const FunctionIds &table,
                                         std::function<bool(ProcessIdentity &)> look_up)
    : settings_(std::move(settings)),
      table_(&table),
      family_set_(settings_.budget, settings_.pid_label),
      families_(make_function_families(family_set_)),
      processes_(family_set_, {.budget = settings_.budget,
                               .pid_label = settings_.pid_label,
                               .script_label = settings_.script_label,
                               .retention = settings_.retention,
                               .look_up = std::move(look_up)}) {}

void FunctionsAggregator::on_record(std::span<const std::byte> bytes) {
    const auto head =
        ebpf::decode<func_record>(bytes.first(std::min(bytes.size(), sizeof(func_record))));
    switch (head ? head->type : ~0U) {
        case FUNC_RECORD_PROCESS:
            if (const auto record = ebpf::decode<func_process_record>(bytes)) {
                return (void)processes_.start(key_of(record->head), record->identity,
                                              record->details);
            }
            break;
        case FUNC_RECORD_EXIT:
            if (const auto record = ebpf::decode<func_exit_record>(bytes)) {
                if (Process *const ended = processes_.find(key_of(record->head))) {
                    overhead_.note_ended(*ended, record->cost_ns, record->run_ns);
                }
                return processes_.end(key_of(record->head), at(record->head));
            }
            break;
        case FUNC_RECORD_ENTRY:
            if (const auto record = ebpf::decode<func_call_record>(bytes)) {
                return on_call(*record);
            }
            break;
        case FUNC_RECORD_BEGIN:
            if (const auto record = ebpf::decode<func_arguments_record>(bytes)) {
                return on_begin(*record);
            }
            break;
        case FUNC_RECORD_UNRETURNED:
            if (const auto record = ebpf::decode<func_unreturned_record>(bytes)) {
                return on_unreturned(*record);
            }
            break;
        case FUNC_RECORD_WORDS:
            if (const auto record = ebpf::decode<func_words_record>(bytes)) {
                return on_words(*record);
            }
            break;
        case FUNC_RECORD_RETURN:
        case FUNC_RECORD_TAIL_CALL:
            return on_end(bytes);
        default:
            break;
    }
    undecodable_++;
}

// The call is counted when it ends.
void FunctionsAggregator::on_begin(const func_arguments_record &record) {
    const FunctionInfoPtr function = table_->find(record.call.function);
    if (function == nullptr) {
        return reject(record.call.function);
    }
    if (function->nccl) {
        processes_.of(key_of(record.call.head))
            .communicators.on_begin(*function->nccl, record, splits_);
    }
    if (settings_.on_entry) {
        settings_.on_entry({&processes_.of(key_of(record.call.head)), &function, &record.call,
                            &record, nullptr, nullptr, false});
    }
}

// The longer records begin with the shorter ones.
void FunctionsAggregator::on_end(std::span<const std::byte> bytes) {
    if (const auto call = ebpf::decode<func_call_record>(bytes)) {
        on_call(*call);
    } else if (const auto with = ebpf::decode<func_arguments_record>(bytes)) {
        on_call(with->call, &*with);
    } else if (const auto slow = ebpf::decode<func_slow_record>(bytes)) {
        on_call(slow->arguments.call, &slow->arguments, &*slow);
    } else {
        undecodable_++;
    }
}

void FunctionsAggregator::on_call(const func_call_record &record,
                                  const func_arguments_record *arguments,
                                  const func_slow_record *slow) {
    const ProcessKey key = key_of(record.head);
    if (!processes_.contains(key) && table_->find(record.function) == nullptr) {
        return reject(record.function);  // the process in such a record is not trusted
    }
    Process &process = processes_.of(key);
    Counted *const one = counted(process, record.function);
    const bool has_ended = record.head.type != FUNC_RECORD_ENTRY;
    if (one == nullptr) {
        return reject(record.function);
    }
    if (has_ended && one->shown == nullptr) {
        undecodable_++;
        return;
    }
    families_.calls.add(one->calls, 1);
    one->totals.calls++;
    bool is_slow = false;
    std::optional<std::string> error;
    if (has_ended) {
        std::tie(is_slow, error) = count_end(process, *one, record);
        if (one->function->nccl && arguments != nullptr && record.head.type == FUNC_RECORD_RETURN &&
            !error_of(ErrorKind::nccl_result, record.result)) {
            count_nccl(process, *one, *arguments);
        }
    }
    const FunctionCall call{
        &process, &one->function, &record, arguments, slow, error ? &*error : nullptr, is_slow};
    if (is_slow && settings_.on_slow_call) {
        settings_.on_slow_call(call);
    }
    if (settings_.on_call) {
        settings_.on_call(call);
    }
}

// The record of a call that is not counted: its number is invalid, or its function was removed from
// the configuration before the record was read.
void FunctionsAggregator::reject(std::uint32_t number) {
    undecodable_ += table_->is_given(number) ? 0 : 1;
}

// Counts the values that are known only when a call ends.
std::pair<bool, std::optional<std::string>> FunctionsAggregator::count_end(
    Process &process, Counted &counted, const func_call_record &record) {
    counted.shown->durations->observe(*counted.duration, record.duration_ns);
    counted.shown->extremes.add(record.head.ended_ns, record.duration_ns);
    counted.totals.add_duration(record.duration_ns);
    counted.minute.add(record.head.ended_ns, record.duration_ns);
    const FunctionOptions &options = counted.function->options;
    const bool is_slow =
        counted.slow_calls &&
        record.duration_ns >= static_cast<std::uint64_t>(options.slow_threshold->count());
    if (is_slow) {
        families_.slow_calls.add(*counted.slow_calls, 1);
        counted.totals.slow_calls++;
        if (settings_.to_realtime) {
            counted.note_slow(settings_.to_realtime(at(record.head)), record.duration_ns);
        }
    }
    std::optional<std::string> error;
    if (record.head.type == FUNC_RECORD_RETURN) {
        error = error_of(options.errors, record.result);
    }
    if (error) {
        count_error(process, counted, *error);
    }
    return {is_slow, std::move(error)};
}

// Not called at each slow call, as there may be many.
void FunctionsAggregator::keep_exemplars(Process &process) {
    for (auto function = process.functions.begin(); function != process.functions.end();
         ++function) {
        Counted &counted = function.value();
        if (counted.slow_at != nanoseconds::zero() && counted.slow_calls) {
            const series::Exemplar exemplar{
                .labels = {{"pid", std::to_string(process.key.tgid)}, {"comm", process.comm}},
                .value = static_cast<double>(counted.slow_ns) / 1e9,
                .at = counted.slow_at};
            families_.slow_calls.set_exemplar(*counted.slow_calls, exemplar);
            counted.shown->durations->set_exemplar(*counted.duration, exemplar);
            counted.slow_at = nanoseconds::zero();
        }
    }
}

bool FunctionsAggregator::find_room(Process &process, std::size_t bytes) const {
    if (!process.room.is_limited()) {
        process.room = UserShare(settings_.room, process.uid);
    }
    return process.room.take(bytes);
}

void FunctionsAggregator::count_error(Process &process, Counted &counted, const std::string &code) {
    auto found = counted.errors.find(code);
    if (found == counted.errors.end()) {
        const bool has_room =
            counted.errors.size() < max_codes && find_room(process, bytes_of_code);
        const std::string shown = has_room ? code : "other";
        auto values = labels(process, *counted.function);
        values.push_back(shown);
        found =
            counted.errors.try_emplace(shown, families_.errors.slot(process.owner, values)).first;
    }
    families_.errors.add(found->second, 1);
    counted.totals.errors++;
}

FunctionsAggregator::Counted *FunctionsAggregator::counted(Process &process, std::uint32_t number) {
    auto found = process.functions.find(number);
    if (found == process.functions.end()) {
        auto function = table_->find(number);
        if (function == nullptr) {
            return nullptr;
        }
        found = process.functions.emplace(number, count(process, std::move(function))).first;
    }
    return &found.value();
}

FunctionsAggregator::Counted FunctionsAggregator::count(Process &process,
                                                        FunctionInfoPtr function) {
    const auto values = labels(process, *function);
    Counted one;
    one.calls = families_.calls.slot(process.owner, values);
    if (!function->options.entry_only) {
        one.shown = &shown_[{process.owner, values}];
        if (one.shown->durations == nullptr) {
            one.shown->durations = &durations(function->options);
        }
        one.duration = one.shown->durations->slot(process.owner, values);
        if (function->options.slow_threshold) {
            one.slow_calls = families_.slow_calls.slot(process.owner, values);
        }
    }
    one.function = std::move(function);
    return one;
}

series::Family &FunctionsAggregator::durations(const FunctionOptions &options) {
    const auto bounds = call_bounds(options);
    const auto found = durations_.find(bounds);
    return found != durations_.end()
               ? *found->second
               : *durations_.emplace(bounds, &add_function_durations(family_set_, bounds))
                      .first->second;
}

series::LabelValues FunctionsAggregator::labels(const Process &process,
                                                const FunctionInfo &function) const {
    series::LabelValues values = process.labels;
    values.push_back(function.library);
    values.push_back(function.name);
    return values;
}

void FunctionsAggregator::tidy(nanoseconds now) {
    processes_.forget_if([&](Process &process) {
        // A process that ends later may have unread calls in the other ring.
        const bool is_over = process.ended && *process.ended <= now;
        if (is_over) {
            keep_exemplars(process);
            Totals totals;
            keep_totals(process, totals);
            std::uint64_t slow_calls = 0;
            for (const auto &[shown_as, count] : totals) {
                slow_calls += count.totals.slow_calls;
                keep(count, ended_);
            }
            if (slow_calls > 0) {
                settings_.on_end(process.key, slow_calls);
            }
            for (const auto &[handle, member] : process.communicators.members()) {
                retained_.communicators.insert_or_assign(member.hash, now);
            }
        }
        return is_over;
    });
    family_set_.rebalance();
    forget_removed(now);
    forget_unobserved(now);
    forget_communicators(now);
    for (const series::Owner owner : processes_.expire(now)) {
        std::erase_if(shown_, [&](const auto &entry) { return entry.first.first == owner; });
    }
}

std::vector<series::FamilySnapshot> FunctionsAggregator::report(nanoseconds now) {
    overhead_.note_running(processes_, settings_.cost_of);
    count_unobserved(now);
    series::FamilySet gauge_set(settings_.budget, settings_.pid_label);
    const FunctionGauges gauges = make_function_gauges(gauge_set);
    for (const auto &[key, shown] : shown_) {
        if (const auto range = shown.extremes.before(now)) {
            // Folded label sets are one label set: its extremes are the extremes of all.
            const series::Slot min = gauges.min.slot(0, key.second);
            const series::Slot max = gauges.max.slot(0, key.second);
            const std::uint64_t so_far = gauges.min.value(min);  // 0: the first
            gauges.min.set(min, so_far == 0 ? range->min_ns : std::min(so_far, range->min_ns));
            gauges.max.set(max, std::max(gauges.max.value(max), range->max_ns));
        }
    }
    series::FamilySet nccl_set(settings_.budget, true);
    show_nccl(nccl_set);
    processes_.for_each([&](Process &process) { keep_exemplars(process); });
    std::vector<series::FamilySnapshot> snapshots = family_set_.snapshots();
    page_families_.add(gauge_set, snapshots);
    page_families_.add(nccl_set, snapshots);
    return snapshots;
}

std::map<std::string, std::uint64_t> FunctionsAggregator::folded() const {
    std::map<std::string, std::uint64_t> folded = family_set_.folded();
    page_families_.add_to(folded);
    return folded;
}

}  // namespace gpusnoop::probes
