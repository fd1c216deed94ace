#include "exporter/probes/functions/limit/governor.h"

#include <algorithm>
#include <string>

#include "bpf/lib/open_call.h"
#include "exporter/base/log.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

FunctionGovernor::FunctionGovernor(std::uint32_t percent, AttachedFiles &files,
                                   const FunctionIds &ids, Kernel kernel)
    : files_(files),
      ids_(ids),
      kernel_(std::move(kernel)),
      dear_(percent, now_on(CLOCK_MONOTONIC)),
      thread_([this](const std::stop_token &stop) { run(stop); }) {}

bool FunctionGovernor::is_due(nanoseconds now) {
    if (now - noted_at_ < std::chrono::seconds(1)) {
        return false;
    }
    noted_at_ = now;
    return true;
}

void FunctionGovernor::note(const std::vector<CallsOfFunction> &calls) {
    {
        const std::lock_guard lock(mutex_);
        if (!calls_) {
            calls_.emplace();
        }  // else the thread is still attaching
        for (const CallsOfFunction &one : calls) {
            if (calls_->size() < max_noted) {
                (*calls_)[{one.process, one.number}] += one.calls;
            }
        }
    }
    noted_.notify_one();
}

std::vector<UnobservedFunction> FunctionGovernor::take_unobserved() {
    std::vector<UnobservedFunction> unobserved;
    const std::lock_guard lock(mutex_);
    for (const auto &[names, time] : std::exchange(unobserved_, {})) {
        unobserved.push_back({names.first, names.second, time});
    }
    return unobserved;
}

// Once a second, and once more soon after functions were paused, so that their links are closed for
// most of even a short pause.
void FunctionGovernor::run(const std::stop_token &stop) {
    const auto is_noted = [this] { return calls_.has_value(); };
    bool has_paused = false;
    while (!stop.stop_requested()) {
        std::unique_lock lock(mutex_);
        if (has_paused) {
            noted_.wait_for(lock, stop, AttachedFiles::settles, is_noted);
        } else {
            noted_.wait(lock, stop, is_noted);
        }
        const auto calls = std::exchange(calls_, std::nullopt);
        lock.unlock();
        has_paused = false;
        if (calls && !stop.stop_requested()) {
            count_unobserved();
            const auto dear = dear_.look(now_on(CLOCK_MONOTONIC), uses_of(*calls));
            resume_what_is_due();
            pause(dear);
            has_paused = !dear.empty();
        }
        close_links();
    }
}

// By the calls. If a process has cost far more by the kernel's account, most of it has no record:
// calls over the rate limit, lost calls, or exits that were passed without leaving the function.
// Nobody knows of which functions they are.
std::vector<DearFunctions::Use> FunctionGovernor::uses_of(const Calls &calls) {
    std::vector<DearFunctions::Use> uses;
    std::map<ProcessKey, nanoseconds> sums;
    const auto functions = calls.empty() ? AttachedFiles::Costs() : files_.costs();
    for (const auto &[key, count] : calls) {
        const auto &[process, number] = key;
        // Else it has been detached meanwhile.
        if (const auto found = functions.find(number); found != functions.end()) {
            const AttachedFiles::Cost &function = found->second;
            uses.push_back({process, function.place,
                            function.of_call * static_cast<std::int64_t>(count),
                            function.can_pause});
            sums[process] += uses.back().cost;
        }
    }
    std::map<ProcessKey, nanoseconds> costs;
    for (const auto &[process, sum] : sums) {
        const nanoseconds cost = costs[process] = cost_of(process);
        const auto before = costs_.find(process);
        if (before != costs_.end() && cost - before->second > 2 * sum) {
            uses.push_back({process, {}, cost - before->second - sum, false});
        }
    }
    costs_ = std::move(costs);
    return uses;
}

nanoseconds FunctionGovernor::cost_of(const ProcessKey &process) const {
    return nanoseconds(static_cast<std::int64_t>(kernel_.cost_of(process)));
}

void FunctionGovernor::pause(const std::vector<DearFunctions::Dear> &dear) {
    if (dear.empty()) {
        return;
    }
    std::map<FileId, std::set<std::uint64_t>> of_files;
    for (const DearFunctions::Dear &one : dear) {
        of_files[one.function.file].insert(one.function.entry);
    }
    std::map<FileId, Result<>> results;
    for (const auto &[file, entries] : of_files) {
        results.emplace(file, files_.pause(file, entries));
    }
    // Calls that they made until now are no reason to pause others.
    for (auto &[process, cost] : costs_) {
        cost = cost_of(process);
    }
    const auto paused = files_.paused();
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    for (const DearFunctions::Dear &one : dear) {
        const bool is_new = dear_.paused(one.function, now);
        const auto found = paused.find(one.function);
        const Result<> &result = results.at(one.function.file);
        if (found != paused.end()) {
            paused_[one.function] = {
                .names = found->second, .processes = one.processes, .counted_until = now};
            log_pause(one, found->second);
            const std::lock_guard lock(mutex_);
            unobserved_.try_emplace(found->second);
        } else if (!result && is_new) {
            log::warn("cannot detach from functions that cost a process too much",
                      {{"probe", "functions"},
                       {"pid", one.processes.front().tgid},
                       {"reason", result.error().message}});
        }
    }
}

void FunctionGovernor::log_pause(const DearFunctions::Dear &dear,
                                 const AttachedFiles::Names &names) {
    constexpr const char *text =
        "the calls of a function cost a process more than cuda.max_overhead: they are observed "
        "intermittently";
    const auto log_line = logged_.insert(dear.function).second ? log::info : log::debug;
    log_line(text, {{"probe", "functions"},
                    {"library", names.first},
                    {"function", names.second},
                    {"pid", dear.processes.front().tgid}});
}

void FunctionGovernor::resume_what_is_due() {
    for (const FunctionPlace &function : dear_.due(now_on(CLOCK_MONOTONIC))) {
        if (paused_.contains(function)) {
            resume(function, true);
        } else {  // its probes could not be changed
            dear_.resumed(function, now_on(CLOCK_MONOTONIC));
        }
    }
    std::vector<FunctionPlace> without_reason;
    for (const auto &[function, paused] : paused_) {
        if (!paused.cannot_resume && !has_reason(paused)) {
            without_reason.push_back(function);
        }
    }
    for (const FunctionPlace &function : without_reason) {
        resume(function, false);
    }
}

// Whether a process still runs that the function cost too much.
bool FunctionGovernor::has_reason(const Paused &paused) const {
    return std::ranges::any_of(paused.processes, [this](const ProcessKey &process) {
        return cost_of(process) > nanoseconds(0);
    });
}

void FunctionGovernor::resume(const FunctionPlace &function, bool is_over) {
    Paused &paused = paused_.at(function);
    const auto resumed = files_.resume(function);
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    count_until(now, paused);
    if (!resumed) {
        (void)dear_.paused(function, now);
        if (!std::exchange(paused.cannot_resume, true)) {
            log::warn("cannot attach again to a function that was paused",
                      {{"probe", "functions"},
                       {"library", paused.names.first},
                       {"function", paused.names.second},
                       {"reason", resumed.error().message}});
        }
        return;
    }
    if (is_over) {
        dear_.resumed(function, now);
    } else {  // for the others, the next pause is a first one
        dear_.forget(function);
    }
    log::debug("the calls of a function are observed again",
               {{"probe", "functions"},
                {"library", paused.names.first},
                {"function", paused.names.second},
                {"reason", is_over ? "the pause is over" : "the processes behind it have ended"}});
    paused_.erase(function);
}

void FunctionGovernor::count_until(nanoseconds now, Paused &paused) {
    const std::lock_guard lock(mutex_);
    unobserved_[paused.names] += now - std::exchange(paused.counted_until, now);
}

// A pause can also end because the file is unused, or because of another configuration.
void FunctionGovernor::count_unobserved() {
    const auto still_paused = files_.paused();
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    for (auto one = paused_.begin(); one != paused_.end();) {
        auto &[function, paused] = *one;
        count_until(now, paused);
        if (still_paused.contains(function)) {
            ++one;
        } else {
            dear_.forget(function);
            one = paused_.erase(one);
        }
    }
    std::erase_if(logged_,
                  [&](const FunctionPlace &function) { return !files_.has(function.file); });
}

void FunctionGovernor::close_links() {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    const std::set<std::uint32_t> closing = files_.closing(now);
    if (closing.empty()) {
        return;
    }
    if (!in_flight_) {
        in_flight_ = kernel_.open_reader();
    }
    AttachedFiles::InFlight in_flight(std::in_place);
    const auto note_number = [&](const open_call_record &record) {
        // The cookie's lower half (FUNC_NUMBER). Older calls were of another function.
        const auto number = static_cast<std::uint32_t>(record.call.cookie);
        const auto began = nanoseconds(static_cast<std::int64_t>(record.call.started_ns));
        if (closing.contains(number) && began >= ids_.given_at(number)) {
            in_flight->insert(number);
        }
        return false;
    };
    if (!*in_flight_ || !(**in_flight_)->read({}, {.call_of = {}, .is_shown = note_number})) {
        in_flight.reset();
    }
    files_.close(now, in_flight);
}

}  // namespace gpusnoop::probes
