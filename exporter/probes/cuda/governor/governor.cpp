#include "exporter/probes/cuda/governor/governor.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "bpf/cuda/cuda.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

constexpr std::chrono::milliseconds interval{100};
constexpr std::chrono::milliseconds interval_at_rest{1000};
// Of an ended process, for the aggregator, which hears of its end by a record.
constexpr std::chrono::minutes state_kept_for{1};
constexpr std::size_t max_processes = 65'536;
// While the libraries of a process are attached to, its launches are not seen in the driver.
constexpr unsigned many_odd_looks = 5;

// How long a process whose kernels have no names is seen to the end of its launches, so that their
// handles are learned: so long, and so many times as long as it takes to exchange the links.
constexpr std::chrono::seconds learning{1};
constexpr int learning_over_exchange = 10;
// And after how long again, if that does not help: twice as long each time.
constexpr std::chrono::seconds first_learning_pause{1};
constexpr std::chrono::minutes longest_learning_pause{10};
// But if there are more of them by then. A program can make such kernels all the time.
constexpr std::chrono::seconds pause_for_new_kernels{30};

// More is hardly the probes': the process has phases that happen to fall together with its turns.
constexpr double most_loss = 5;

// When links could not be exchanged.
constexpr std::chrono::seconds until_next_try{1};

UnseenLaunches::Counts counts_in(const cuda_live_process &process, nanoseconds now) {
    return {now, nanoseconds(process.cost_ns), process.launches, process.other_calls};
}

std::string percent_text(double percent) {
    return std::to_string(static_cast<int>(percent + 0.5)) + "%";
}

}  // namespace

LaunchGovernor::LaunchGovernor(std::uint32_t percent, Maps maps, CostTablesPtr others,
                               const CudaPrograms &programs, LaunchProbes &probes, bool can_pause)
    : percent_(percent),
      maps_(maps),
      others_(std::move(others)),
      programs_(programs),
      probes_(probes),
      can_pause_(can_pause),
      started_(now_on(CLOCK_MONOTONIC)) {
    // With pins, they may have the processes of an earlier exporter.
    for (const int map : {maps_.sights, programs_.detaches_map(), programs_.runtimes_map()}) {
        std::uint32_t tgid = 0;
        while (bpf_map_get_next_key(map, nullptr, &tgid) == 0 &&
               bpf_map_delete_elem(map, &tgid) == 0) {
        }
    }
    thread_ = std::jthread([this](const std::stop_token &stop) { run(stop); });
}

void LaunchGovernor::run(const std::stop_token &stop) {
    for (sleep(stop); !stop.stop_requested(); sleep(stop)) {
        look(now_on(CLOCK_MONOTONIC));
    }
}

// A rest that ends ends the sleep: a process may make calls soon.
void LaunchGovernor::sleep(const std::stop_token &stop) {
    std::unique_lock lock(rest_.mutex);
    const bool is_resting = rest_.is_now;
    rest_.changed.wait_for(lock, stop, is_resting ? interval_at_rest : interval,
                           [&] { return is_resting && !rest_.is_now; });
}

void LaunchGovernor::set_resting(bool is_resting) {
    {
        const std::lock_guard lock(rest_.mutex);
        rest_.is_now = is_resting;
    }
    rest_.changed.notify_one();
}

void LaunchGovernor::look(nanoseconds now) {
    std::map<ProcessKey, Costs> running;
    const auto read = ebpf::for_each_lookup<std::uint32_t, cuda_live_process>(
        maps_.processes, max_processes, [&](std::uint32_t tgid, const cuda_live_process &process) {
            running.emplace(ProcessKey{tgid, process.since_ns},
                            Costs{counts_in(process, now), process.even_launches,
                                  process.odd_launches, process.odd_driver_launches});
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
    for (const auto &[key, costs] : running) {
        const nanoseconds others = others_->cost_of(key.tgid);
        decide(key, state_of(key, now, costs, others), now, costs, others);
    }
    if (const LaunchProbes::Wanted now_wanted = wanted(now);
        now_wanted != applied_ && now >= next_try_) {
        apply(now_wanted);
    } else if (is_pause_missed()) {
        note_pauses(now, counts());
    }
    for (auto &[key, state] : states_) {
        if (std::exchange(state.turns_end, false) && !state.ended) {
            log::info("the kernel launches of a process are no longer paused",
                      {{"probe", "cuda"}, {"pid", key.tgid}});
        }
    }
    const std::lock_guard lock(mutex_);
    std::erase_if(states_, [&](const auto &entry) {
        return entry.second.ended && now - *entry.second.ended > state_kept_for;
    });
}

LaunchGovernor::State &LaunchGovernor::state_of(const ProcessKey &process, nanoseconds now,
                                                const Costs &costs, nanoseconds others) {
    auto found = states_.find(process);
    if (found == states_.end()) {
        const nanoseconds since(process.since_ns);
        // With pins, it can have been traced before this exporter.
        const bool is_older = since < started_;
        const nanoseconds own = costs.counts.cost;
        const LaunchMeter meter(is_older ? now : since, is_older ? costs.counts.launches : 0);
        const CostBudget budget = is_older ? CostBudget(percent_, now, own + others)
                                           : CostBudget(percent_, since, others);
        const std::lock_guard lock(mutex_);
        found = states_.emplace(process, State(meter, budget)).first;
    } else if (found->second.ended) {
        const std::lock_guard lock(mutex_);
        found->second.ended.reset();  // a reading of the table has left it out
    }
    return found->second;
}

void LaunchGovernor::decide(const ProcessKey &process, State &state, nanoseconds now,
                            const Costs &costs, nanoseconds others) {
    const std::uint64_t odd = costs.odd_launches + costs.odd_driver_launches;
    state.odd_looks = std::exchange(state.odd_launches, odd) < odd ? state.odd_looks + 1 : 0;
    state.has_odd_driver = costs.odd_driver_launches > 0;
    if (state.odd_looks >= many_odd_looks && !std::exchange(state.is_odd, true)) {
        log::info(
            "launches of a process do not each make one launch of the driver: all of them are "
            "traced in full",
            {{"probe", "cuda"}, {"pid", process.tgid}});
    }
    // Before, it must be known that each of its launches is one of the driver's. Of a process that
    // begins while its runtime's are counted, others have shown it.
    const bool can_count = state.odd_looks == 0 && !state.is_odd &&
                           (costs.even_launches > 0 || probes_.has_no_ends(process.tgid));
    const nanoseconds own = costs.counts.cost;
    const bool is_within = state.budget.note(now, own + others, times_of(process, state));
    // In a pause, its launches are not counted.
    const bool is_dear = state.meter.note(now, costs.counts.launches, programs_.cost_of_launch()) ||
                         (can_pause_ && state.budget.is_in_turns());
    state.is_counted = is_dear && (can_count || state.is_counted);
    state.is_to_be_seen = is_within || !state.is_counted || !can_pause_;
    const bool in_turns = state.is_counted && can_pause_ && state.budget.is_in_turns();
    state.turns_end = state.was_in_turns && !in_turns;
    if (in_turns && !state.was_in_turns) {
        log::info(
            "the probes cost a process more than cuda.max_overhead: from now on, its kernel "
            "launches are counted intermittently",
            {{"probe", "cuda"},
             {"pid", process.tgid},
             {"overhead", percent_text(state.budget.percent_at_begin())}});
    }
    state.was_in_turns = in_turns;
    const std::lock_guard lock(mutex_);
    state.launches.note(costs.counts);
    state.seen_launches = costs.counts.launches;
    learn_kernels(state, now);
}

// The loss that was measured can be larger than the one that is assumed of all; a smaller one is
// not used, as it is that of the process's launches alone.
double LaunchGovernor::times_of(const ProcessKey &process, State &state) {
    constexpr double assumed = MaxOverhead::true_cost;
    const std::optional<LossFactor> loss = state.loss.factor();
    if (!loss || !loss->is_certain() || loss->estimate <= assumed) {
        return assumed;
    }
    const double times = std::min(loss->estimate, most_loss);
    if (!std::exchange(state.is_loss_logged, true)) {
        log::info(
            "the probes slow a process down by more than twice what they are known to cost: its "
            "kernel launches are observed less often",
            {{"probe", "cuda"}, {"pid", process.tgid}, {"times", times}});
    }
    return times;
}

// A process that was attached to in its middle, beside a neighbour whose launches are counted, has
// looked its kernels up before.
void LaunchGovernor::learn_kernels(State &state, nanoseconds now) const {
    if (state.unknown_kernels == 0) {
        state.learning_pause = first_learning_pause;
    } else if (state.unknown_kernels > state.unknown_kernels_before) {
        state.learned_again =
            std::min<nanoseconds>(state.learned_again, state.learned_until + pause_for_new_kernels);
    }
    // While nothing is counted, all launches are seen to their end.
    if (state.unknown_kernels > 0 && now >= state.learned_again && !applied_.counted.empty()) {
        state.unknown_kernels_before = state.unknown_kernels;
        state.learned_until =
            now + std::max<nanoseconds>(learning, learning_over_exchange * exchange_took_);
        state.learned_again = state.learned_until + state.learning_pause;
        state.learning_pause =
            std::min<nanoseconds>(2 * state.learning_pause, longest_learning_pause);
    }
}

void LaunchGovernor::note_unknown_kernels(const ProcessKey &process, std::size_t kernels) {
    const std::lock_guard lock(mutex_);
    if (const auto found = states_.find(process); found != states_.end()) {
        found->second.unknown_kernels = kernels;
    }
}

LaunchProbes::Wanted LaunchGovernor::wanted(nanoseconds now) const {
    LaunchProbes::Wanted wanted;
    for (const auto &[key, state] : states_) {
        if (state.ended) {
            continue;
        }
        if (state.is_counted) {
            wanted.counted.insert(key.tgid);
        }
        if (now < state.learned_until) {
            wanted.learned.insert(key.tgid);
        }
        if (state.is_odd) {
            wanted.odd.insert(key.tgid);
            wanted.driver_is_odd |= state.has_odd_driver;
        }
        if (state.was_in_turns) {
            wanted.in_turns.insert(key.tgid);
            if (!state.is_to_be_seen) {
                wanted.paused.insert(key.tgid);
            }
        }
    }
    if (wanted.counted.empty()) {
        wanted.learned.clear();
    }
    if (!wanted.learned.empty()) {
        wanted.paused.clear();  // handles are learned where launches enter the driver
    }
    if (wanted.driver_is_odd) {
        wanted.counted.clear();
        wanted.in_turns.clear();
        wanted.paused.clear();
    }
    return wanted;
}

void LaunchGovernor::apply(const LaunchProbes::Wanted &wanted) {
    programs_.note_other_calls(!wanted.counted.empty());
    const nanoseconds before = now_on(CLOCK_MONOTONIC);
    const Counts counted = counts();
    if (probes_.set(wanted)) {
        applied_ = wanted;
    } else {
        next_try_ = before + until_next_try;
    }
    exchange_took_ = now_on(CLOCK_MONOTONIC) - before;
    note_pauses(before, counted);
}

LaunchGovernor::Counts LaunchGovernor::counts() const {
    Counts counts;
    for (const auto &[key, state] : states_) {
        cuda_live_process process{};
        if (!state.ended && bpf_map_lookup_elem(maps_.processes, &key.tgid, &process) == 0) {
            counts.emplace(key.tgid, counts_in(process, now_on(CLOCK_MONOTONIC)));
        }
    }
    return counts;
}

// The links have changed with the processes that use a file, and not by apply().
bool LaunchGovernor::is_pause_missed() const {
    return !applied_.counted.empty() && std::ranges::any_of(states_, [this](const auto &entry) {
        return !entry.second.ended &&
               probes_.is_seen(entry.first.tgid) == entry.second.paused_at.has_value();
    });
}

void LaunchGovernor::note_pauses(nanoseconds before, const Counts &counts_before) {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    const Counts counts_now = counts();
    for (auto &[key, state] : states_) {
        if (state.ended) {
            continue;
        }
        const bool is_seen = probes_.is_seen(key.tgid);
        {
            const std::lock_guard lock(mutex_);
            if (!is_seen && !state.paused_at) {
                state.paused_at = before;
                if (const auto of = counts_before.find(key.tgid); of != counts_before.end()) {
                    state.launches.pause_begins(of->second);
                    state.loss.pause_begins(of->second);
                }
            } else if (is_seen && state.paused_at) {
                state.unseen += now - *state.paused_at;
                state.paused_at.reset();
                if (const auto of = counts_now.find(key.tgid); of != counts_now.end()) {
                    state.launches.pause_ends(of->second);
                    state.loss.pause_ends(of->second);
                }
            }
            if (!state.is_counted) {
                state.launches.turns_end();
                state.loss.turns_end();
            } else if (const auto of = counts_now.find(key.tgid);
                       is_seen && !state.launches.is_in_turn() && of != counts_now.end()) {
                state.launches.turn_begins(of->second);
            }
            if (!is_seen || state.was_in_turns) {
                state.seen_since = nanoseconds(0);
            } else if (state.seen_since == nanoseconds(0)) {
                state.seen_since = now;
            }
        }
        say(key, state);
    }
}

void LaunchGovernor::say(const ProcessKey &process, const State &state) const {
    const cuda_sight sight{static_cast<std::uint64_t>(state.seen_since.count())};
    (void)bpf_map_update_elem(maps_.sights, &process.tgid, &sight, BPF_ANY);
}

void LaunchGovernor::end(const ProcessKey &process, State &state, nanoseconds now) {
    (void)bpf_map_delete_elem(maps_.sights, &process.tgid);
    (void)bpf_map_delete_elem(programs_.detaches_map(), &process.tgid);
    (void)bpf_map_delete_elem(programs_.runtimes_map(), &process.tgid);
    const std::lock_guard lock(mutex_);
    if (state.paused_at) {
        state.unseen += now - *state.paused_at;
        state.paused_at.reset();
    }
    state.ended = now;
}

Unseen LaunchGovernor::unseen(const ProcessKey &process) const {
    const std::lock_guard lock(mutex_);
    const auto found = states_.find(process);
    if (found == states_.end()) {
        return {};
    }
    const State &state = found->second;
    const nanoseconds pause =
        state.paused_at ? now_on(CLOCK_MONOTONIC) - *state.paused_at : nanoseconds(0);
    return {state.unseen + pause, state.launches.total(), state.launches.least(),
            state.launches.most(), state.loss.factor()};
}

// The last process with this id is the one that runs.
double LaunchGovernor::unseen_per_launch(std::uint32_t tgid) const {
    const std::lock_guard lock(mutex_);
    const auto after = states_.upper_bound({tgid, std::numeric_limits<std::uint64_t>::max()});
    if (after == states_.begin() || std::prev(after)->first.tgid != tgid) {
        return 0;
    }
    const State &state = std::prev(after)->second;
    return state.seen_launches > 0 ? static_cast<double>(state.launches.total()) /
                                         static_cast<double>(state.seen_launches)
                                   : 0;
}

}  // namespace gpusnoop::probes
