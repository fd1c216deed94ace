// Keeps what the probes cost a process below `cuda: {max_overhead: 5%}`.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "exporter/probes/cuda/governor/cost_budget.h"
#include "exporter/probes/cuda/governor/launch_probes.h"
#include "exporter/probes/frame/cost_tables.h"
#include "exporter/probes/frame/process_identity.h"

namespace gpusnoop::probes {

// Counts what all probes on functions cost. A process that costs more has turns of a second, in
// which its kernel launches are seen, and pauses, in which they are not: only without a probe does
// a call cost nothing. All its other calls, and those about memory among them, are always seen.
class LaunchGovernor {
public:
    struct Maps {
        int processes;  // of the probe: its values begin with a process_entry
        int in_turns;   // for its programs: the processes that have turns
    };
    // `others`: what the other probes cost. `probes` must outlive it.
    LaunchGovernor(std::uint32_t percent, Maps maps, CostTablesPtr others, LaunchProbes &probes);
    LaunchGovernor(const LaunchGovernor &) = delete;
    LaunchGovernor &operator=(const LaunchGovernor &) = delete;

    // For any thread. How long the process's launches were not seen, until now or its end.
    [[nodiscard]] std::chrono::nanoseconds unseen(const ProcessKey &process) const;
    // Whether a launch that began then may have ended unseen.
    [[nodiscard]] bool may_have_ended(const ProcessKey &process,
                                      std::chrono::nanoseconds began) const;

private:
    struct State {
        explicit State(CostBudget with) : budget(with) {}

        CostBudget budget;
        bool is_seen = true;
        bool was_in_turns = false;
        std::chrono::nanoseconds unseen{};  // without the present pause
        std::optional<std::chrono::nanoseconds> paused_at;
        std::chrono::nanoseconds detached_at{};  // in the last pause
        std::optional<std::chrono::nanoseconds> ended;
    };
    using States = std::map<ProcessKey, State>;

    void run(const std::stop_token &stop);
    void look(std::chrono::nanoseconds now);
    State &state_of(const ProcessKey &process, std::chrono::nanoseconds now,
                    std::chrono::nanoseconds cost, std::chrono::nanoseconds others);
    void apply(const ProcessKey &process, State &state, bool is_seen);
    void pause(const ProcessKey &process, State &state);
    void resume(const ProcessKey &process, State &state);
    void end(const ProcessKey &process, State &state, std::chrono::nanoseconds now);
    // For the programs. `seen_since`: 0 while it has turns.
    void say(const ProcessKey &process, const State &state, std::chrono::nanoseconds seen_since);

    std::uint32_t percent_;
    Maps maps_;
    CostTablesPtr others_;
    LaunchProbes &probes_;
    std::chrono::nanoseconds started_;
    mutable std::mutex mutex_;  // of the states; only the thread changes them
    States states_;
    std::jthread thread_;  // the last: it ends before what it uses
};

}  // namespace gpusnoop::probes
