// Keeps what the probes cost a process below `cuda: {max_overhead: 3%}`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "exporter/probes/cuda/governor/cost_budget.h"
#include "exporter/probes/cuda/governor/launch_meter.h"
#include "exporter/probes/cuda/governor/launch_probes.h"
#include "exporter/probes/cuda/governor/loss_meter.h"
#include "exporter/probes/cuda/governor/unseen_launches.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// Counts what the probes on functions cost, but for those that have a limit of their own. Where a
// process pays more than 1 % of a CPU, its launches are counted where they enter the driver. A
// process that costs more than the limit even then has turns of a second, in which its launches are
// counted, and pauses, in which they are not: only without a probe does a call cost nothing. All
// its other calls, and those about memory among them, are always seen.
class LaunchGovernor {
public:
    struct Maps {
        int processes;  // of the probe: its values begin with a process_entry
        int sights;     // for its programs: struct cuda_sight
    };
    // `others`: what other probes cost, but for the named functions. `can_pause`: a link can be of
    // one process. All references must outlive it.
    LaunchGovernor(std::uint32_t percent, Maps maps, CostTablesPtr others,
                   const CudaPrograms &programs, LaunchProbes &probes, bool can_pause);
    LaunchGovernor(const LaunchGovernor &) = delete;
    LaunchGovernor &operator=(const LaunchGovernor &) = delete;

    // For any thread. Until now or the process's end.
    [[nodiscard]] Unseen unseen(const ProcessKey &process) const;
    // The same. How many launches were not seen, for each that was.
    [[nodiscard]] double unseen_per_launch(std::uint32_t tgid) const;

    // For any thread. How many kernels of the process have no name.
    void note_unknown_kernels(const ProcessKey &process, std::size_t kernels);

    // For any thread. While it rests, it looks at the processes once a second.
    void set_resting(bool is_resting);

private:
    struct Rest {
        std::mutex mutex;
        std::condition_variable_any changed;
        bool is_now = false;
    };
    struct Costs {
        UnseenLaunches::Counts counts;  // with the probe's own cost
        std::uint64_t even_launches;    // these, as in struct cuda_live_process
        std::uint64_t odd_launches;
        std::uint64_t odd_driver_launches;
    };
    struct State {
        State(LaunchMeter of_launches, CostBudget with) : meter(of_launches), budget(with) {}

        LaunchMeter meter;
        CostBudget budget;
        bool is_counted = false;
        bool is_to_be_seen = true;
        std::uint64_t odd_launches = 0;  // of both kinds, at the last look
        unsigned odd_looks = 0;          // in a row, at which there were more
        bool is_odd = false;
        bool has_odd_driver = false;
        bool was_in_turns = false;
        bool turns_end = false;             // at this look
        std::chrono::nanoseconds unseen{};  // without the present pause
        UnseenLaunches launches;
        LossMeter loss;
        bool is_loss_logged = false;
        std::uint64_t seen_launches = 0;
        std::optional<std::chrono::nanoseconds> paused_at;
        std::size_t unknown_kernels = 0;
        std::size_t unknown_kernels_before = 0;  // when they were learned last
        std::chrono::nanoseconds learned_until{};
        std::chrono::nanoseconds learned_again{};  // not before
        std::chrono::nanoseconds learning_pause{};
        std::chrono::nanoseconds seen_since{1};  // all of them; see struct cuda_sight
        std::optional<std::chrono::nanoseconds> ended;
    };
    using States = std::map<ProcessKey, State>;
    using Counts = std::map<std::uint32_t, UnseenLaunches::Counts>;

    void run(const std::stop_token &stop);
    void sleep(const std::stop_token &stop);
    void look(std::chrono::nanoseconds now);
    State &state_of(const ProcessKey &process, std::chrono::nanoseconds now, const Costs &costs,
                    std::chrono::nanoseconds others);
    void decide(const ProcessKey &process, State &state, std::chrono::nanoseconds now,
                const Costs &costs, std::chrono::nanoseconds others);
    // How many times the reported cost the process loses.
    static double times_of(const ProcessKey &process, State &state);
    void learn_kernels(State &state, std::chrono::nanoseconds now) const;
    [[nodiscard]] LaunchProbes::Wanted wanted(std::chrono::nanoseconds now) const;
    void apply(const LaunchProbes::Wanted &wanted);
    void note_pauses(std::chrono::nanoseconds before, const Counts &counts_before);
    [[nodiscard]] Counts counts() const;
    [[nodiscard]] bool is_pause_missed() const;
    void end(const ProcessKey &process, State &state, std::chrono::nanoseconds now);
    // For the programs.
    void say(const ProcessKey &process, const State &state) const;

    std::uint32_t percent_;
    Maps maps_;
    CostTablesPtr others_;
    const CudaPrograms &programs_;
    LaunchProbes &probes_;
    bool can_pause_;
    std::chrono::nanoseconds started_;
    LaunchProbes::Wanted applied_;
    std::chrono::nanoseconds exchange_took_{};
    std::chrono::nanoseconds next_try_{};
    Rest rest_;
    // Of the states. Only the thread changes them, without note_unknown_kernels().
    mutable std::mutex mutex_;
    States states_;
    std::jthread thread_;  // the last: it ends before what it uses
};

}  // namespace gpusnoop::probes
