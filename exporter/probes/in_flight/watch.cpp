#include "exporter/probes/in_flight/watch.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "exporter/probes/in_flight/calls.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

namespace {

// A log line should not need more.
constexpr std::size_t max_stack_bytes = 1'024;

}  // namespace

InFlightWatch::InFlightWatch(Stacks stacks)
    : stacks_(std::move(stacks)), thread_([this](const std::stop_token &stop) { run(stop); }) {}

std::map<std::uint32_t, BlockedThread> InFlightWatch::of(const OpenCalls &open) {
    auto threads = stacks_(open);
    const std::lock_guard lock(mutex_);
    for (const OpenCall &call : open.calls) {
        const auto thread = threads.find(call.tid);
        const Key key(call.tid, call.began_ns);
        if (thread != threads.end() && (known_.size() < max_known || known_.contains(key))) {
            known_[key].stack = symbols::stack_line(thread->second.stack, max_stack_bytes);
            known_[key].site = thread->second.site;
        }
    }
    return threads;
}

bool InFlightWatch::keep_only(const std::vector<OpenCall> &calls, std::uint64_t now_ns) {
    const std::lock_guard lock(mutex_);
    std::set<Key> open;
    for (const OpenCall &call : calls) {
        open.emplace(call.tid, call.began_ns);
    }
    // The report of a thread's end may come after it has left the list.
    for (auto known = known_.begin(); known != known_.end();) {
        const bool is_missing = !open.contains(known->first);
        const bool is_over = std::exchange(known->second.was_missing, is_missing) && is_missing;
        known = is_over ? known_.erase(known) : std::next(known);
    }
    return std::ranges::any_of(calls, [&](const OpenCall &call) { return is_due(call, now_ns); });
}

bool InFlightWatch::is_due(const OpenCall &call, std::uint64_t now_ns) const {
    constexpr std::uint64_t least_age_ns = std::chrono::nanoseconds(least_age).count();
    return known_.size() < max_known && call.began_ns + least_age_ns <= now_ns &&
           !known_.contains({call.tid, call.began_ns});
}

void InFlightWatch::look_at(const OpenCalls &open, std::uint64_t now_ns) {
    const std::lock_guard lock(mutex_);
    if (asked_) {
        return;  // it is not done with the last ones
    }
    std::vector<OpenCall> chosen;
    for (const OpenCall &call : open.calls) {
        if (chosen.size() < max_looks && is_due(call, now_ns)) {
            chosen.push_back(call);
            known_.try_emplace({call.tid, call.began_ns});
        }
    }
    if (!chosen.empty()) {
        asked_ = threads_of(chosen, open);
        work_.notify_one();
    }
}

std::string InFlightWatch::stack_of(const OpenCall &call) const {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find({call.tid, call.began_ns});
    return known == known_.end() ? "" : known->second.stack;
}

std::string InFlightWatch::site_of(const OpenCall &call) const {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find({call.tid, call.began_ns});
    return known == known_.end() ? "" : known->second.site;
}

void InFlightWatch::run(const std::stop_token &stop) {
    std::unique_lock lock(mutex_);
    while (work_.wait(lock, stop, [this] { return asked_.has_value(); })) {
        const OpenCalls open = *asked_;
        lock.unlock();
        (void)of(open);
        lock.lock();
        asked_.reset();
    }
}

}  // namespace gpusnoop::probes
