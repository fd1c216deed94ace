#include "exporter/probes/cuda/governor/governor.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <string>

#include "bpf/cuda/cuda.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/hash_map.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

constexpr std::chrono::milliseconds interval{200};
// Of an ended process, for the aggregator, which hears of its end by a record.
constexpr std::chrono::minutes state_kept_for{1};
constexpr std::size_t max_processes = 65'536;

std::string percent_text(double percent) {
    return std::to_string(static_cast<int>(percent + 0.5)) + "%";
}

}  // namespace

LaunchGovernor::LaunchGovernor(std::uint32_t percent, Maps maps, CostTablesPtr others,
                               LaunchProbes &probes)
    : percent_(percent),
      maps_(maps),
      others_(std::move(others)),
      probes_(probes),
      started_(now_on(CLOCK_MONOTONIC)) {
    // With pins, it may have the processes of an earlier exporter.
    std::uint32_t tgid = 0;
    while (bpf_map_get_next_key(maps_.in_turns, nullptr, &tgid) == 0 &&
           bpf_map_delete_elem(maps_.in_turns, &tgid) == 0) {
    }
    thread_ = std::jthread([this](const std::stop_token &stop) { run(stop); });
}

void LaunchGovernor::run(const std::stop_token &stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any stopped;
    while (!stopped.wait_for(lock, stop, interval, [] { return false; }) &&
           !stop.stop_requested()) {
        look(now_on(CLOCK_MONOTONIC));
    }
}

void LaunchGovernor::look(nanoseconds now) {
    std::map<ProcessKey, nanoseconds> running;  // what the probe has cost each
    const auto read = ebpf::for_each_lookup<std::uint32_t, cuda_live_process>(
        maps_.processes, max_processes, [&](std::uint32_t tgid, const cuda_live_process &process) {
            running.emplace(ProcessKey{tgid, process.since_ns}, process.cost_ns);
        });
    if (!read) {
        return;  // the next time
    }
    // These first, as another process can have the same number.
    for (auto &[key, state] : states_) {
        if (!state.ended && !running.contains(key)) {
            end(key, state, now);
        }
    }
    for (const auto &[key, own] : running) {
        const nanoseconds others = others_->cost_of(key.tgid);
        State &state = state_of(key, now, own, others);
        apply(key, state, state.budget.note(now, own + others));
    }
    const std::lock_guard lock(mutex_);
    std::erase_if(states_, [&](const auto &entry) {
        return entry.second.ended && now - *entry.second.ended > state_kept_for;
    });
}

LaunchGovernor::State &LaunchGovernor::state_of(const ProcessKey &process, nanoseconds now,
                                                nanoseconds cost, nanoseconds others) {
    auto found = states_.find(process);
    if (found == states_.end()) {
        const nanoseconds since(process.since_ns);
        // With pins, it can have been traced before this exporter.
        const CostBudget budget = since < started_ ? CostBudget(percent_, now, cost + others)
                                                   : CostBudget(percent_, since, others);
        const std::lock_guard lock(mutex_);
        found = states_.emplace(process, budget).first;
    }
    return found->second;
}

void LaunchGovernor::say(const ProcessKey &process, const State &state, nanoseconds seen_since) {
    const cuda_turns turns{.detached_ns = static_cast<std::uint64_t>(state.detached_at.count()),
                           .seen_since_ns = static_cast<std::uint64_t>(seen_since.count())};
    (void)bpf_map_update_elem(maps_.in_turns, &process.tgid, &turns, BPF_ANY);
}

void LaunchGovernor::pause(const ProcessKey &process, State &state) {
    const auto paused_at = probes_.set(process.tgid, Sight::out_of_turn);
    {
        const std::lock_guard lock(mutex_);
        state.paused_at = paused_at;
        state.detached_at = now_on(CLOCK_MONOTONIC);
    }
    say(process, state, nanoseconds(0));
}

void LaunchGovernor::resume(const ProcessKey &process, State &state) {
    (void)probes_.set(process.tgid, Sight::in_turn);
    const std::lock_guard lock(mutex_);
    if (state.paused_at) {
        state.unseen += now_on(CLOCK_MONOTONIC) - *state.paused_at;
        state.paused_at.reset();
    }
}

void LaunchGovernor::apply(const ProcessKey &process, State &state, bool is_seen) {
    const bool in_turns = state.budget.is_in_turns();
    if (in_turns && !state.was_in_turns) {
        say(process, state, nanoseconds(0));
        log::info(
            "the probes cost a process more than cuda.max_overhead: from now on, its kernel "
            "launches are seen in turns of a second",
            {{"probe", "cuda"},
             {"pid", process.tgid},
             {"overhead", percent_text(state.budget.percent_at_begin())}});
    }
    if (is_seen != state.is_seen) {
        is_seen ? resume(process, state) : pause(process, state);
        state.is_seen = is_seen;
    }
    if (!in_turns && state.was_in_turns) {
        (void)probes_.set(process.tgid, Sight::always);
        say(process, state, now_on(CLOCK_MONOTONIC));
        log::info("the kernel launches of a process are all seen again",
                  {{"probe", "cuda"}, {"pid", process.tgid}});
    }
    state.was_in_turns = in_turns;
}

void LaunchGovernor::end(const ProcessKey &process, State &state, nanoseconds now) {
    if (state.was_in_turns) {
        (void)probes_.set(process.tgid, Sight::always);
    }
    (void)bpf_map_delete_elem(maps_.in_turns, &process.tgid);
    const std::lock_guard lock(mutex_);
    if (state.paused_at) {
        state.unseen += now - *state.paused_at;
        state.paused_at.reset();
    }
    state.ended = now;
}

nanoseconds LaunchGovernor::unseen(const ProcessKey &process) const {
    const std::lock_guard lock(mutex_);
    const auto found = states_.find(process);
    if (found == states_.end()) {
        return nanoseconds(0);
    }
    const State &state = found->second;
    return state.unseen +
           (state.paused_at ? now_on(CLOCK_MONOTONIC) - *state.paused_at : nanoseconds(0));
}

bool LaunchGovernor::may_have_ended(const ProcessKey &process, nanoseconds began) const {
    const std::lock_guard lock(mutex_);
    const auto found = states_.find(process);
    return found != states_.end() && began < found->second.detached_at;
}

}  // namespace gpusnoop::probes
