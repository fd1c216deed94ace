#include "exporter/probes/host_time/gaps/conclusion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "exporter/probes/frame/processes/process_counts.h"

namespace gpusnoop::probes {

namespace {

HostLimit limit_of_host(std::uint32_t state) {
    switch (state) {
        case HOST_STATE_running:
            return HostLimit::host;
        case HOST_STATE_pipe:
        case HOST_STATE_socket:
        case HOST_STATE_poll:
            return HostLimit::data;
        case HOST_STATE_futex:
            return HostLimit::lock;
        case HOST_STATE_file:
        case HOST_STATE_io_uring:
            return HostLimit::file;
        case HOST_STATE_page_fault:
            return HostLimit::page_fault;
        case HOST_STATE_memory:
            return HostLimit::address_space;
        case HOST_STATE_sleep:
            return HostLimit::sleep;
        case HOST_STATE_child:
            return HostLimit::child;
        case HOST_STATE_device:
            return HostLimit::device;
        case HOST_STATE_stopped:
            return HostLimit::stopped;
        default:
            return HostLimit::other;
    }
}

// What the threads of a process wait for each other.
std::uint64_t idle_of(const HostCells &cells, std::uint64_t elapsed_ns) {
    const std::uint64_t wall = cells.wall_ns();
    return wall > elapsed_ns ? std::min(wall - elapsed_ns, cells.ns[HOST_host][HOST_STATE_futex])
                             : 0;
}

using ByLimit = std::array<std::uint64_t, host_limits>;

auto &of_limit(auto &numbers, HostLimit limit) {
    return numbers[static_cast<std::size_t>(limit)];
}

struct Spent {
    ByLimit ns{};
    std::array<std::array<std::uint64_t, HOST_STATE_COUNT>, host_limits> in_state{};
};

Spent spent_in(const HostCells &cells) {
    Spent spent;
    for (std::uint32_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
            const HostLimit limit = limit_of(phase, state);
            of_limit(spent.ns, limit) += cells.ns[phase][state];
            of_limit(spent.in_state, limit)[state] += cells.ns[phase][state];
        }
    }
    return spent;
}

// The gaps after waits, without what of them was before these times began, as a gap is counted when
// it ends: no more of a state than these times have.
GapTimes::Sum starved_in(const ProcessTimes &times) {
    const auto &on_host = times.cells.ns[HOST_host];
    GapTimes::Sum starved = times.gaps.after_waits();
    const std::uint64_t unexplained = difference(starved.ns, starved.explained_ns());
    for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
        starved.state_ns[state] = std::min(starved.state_ns[state], on_host[state]);
    }
    std::uint64_t &in_calls = starved.state_ns[HOST_GAP_CUDA_CALL];
    in_calls =
        std::min(in_calls, times.cells.wall_ns() -
                               std::accumulate(on_host.begin(), on_host.end(), std::uint64_t{0}));
    starved.ns = starved.explained_ns() + unexplained;
    return starved;
}

using GapStates = std::array<std::uint64_t, HOST_GAP_STATES>;

// What the threads did in gaps that are too short to be explained. A thread that is inside of no
// submission and no wait is in a gap, so this is what they did outside of them, without what is
// explained.
GapStates done_in_short_gaps(const ProcessTimes &times, std::uint64_t idle_ns) {
    GapStates done{};
    std::ranges::copy(times.cells.ns[HOST_host], done.begin());
    done[HOST_STATE_futex] -= idle_ns;
    for (const host_phase phase : {HOST_memory, HOST_other}) {
        const auto &states = times.cells.ns[phase];
        done[HOST_GAP_CUDA_CALL] += std::accumulate(states.begin(), states.end(), std::uint64_t{0});
    }
    for (const GapTimes::Sum &explained : times.gaps.by_drain) {
        std::ranges::transform(done, explained.state_ns, done.begin(), difference);
    }
    return done;
}

// The same gaps, with what was done in the short ones, in proportion.
GapTimes::Sum with_short_gaps(GapTimes::Sum starved, const GapStates &done) {
    const std::uint64_t all = std::accumulate(done.begin(), done.end(), std::uint64_t{0});
    const std::uint64_t in_short = std::min(difference(starved.ns, starved.explained_ns()), all);
    if (in_short > 0) {
        const double part = static_cast<double>(in_short) / static_cast<double>(all);
        std::ranges::transform(starved.state_ns, done, starved.state_ns.begin(),
                               [&](std::uint64_t known, std::uint64_t ns) {
                                   return known + static_cast<std::uint64_t>(
                                                      std::llround(part * static_cast<double>(ns)));
                               });
    }
    return starved;
}

// `all` are the same gaps, with what was done in the short ones.
void note_starvation(Conclusion &conclusion, const GapTimes::Sum &starved, const GapStates &all,
                     std::uint64_t elapsed_ns) {
    if (elapsed_ns == 0) {
        return;
    }
    conclusion.starved =
        std::min(1.0, static_cast<double>(starved.ns) / static_cast<double>(elapsed_ns));
    if (starved.ns > 0 && starved.explained_ns() >= starved.ns / 2) {
        conclusion.starved_state =
            static_cast<std::uint32_t>(std::ranges::max_element(all) - all.begin());
    }
}

// What is outside of gaps is as it was spent. The rest is what was done in the gaps: what the host
// does while the GPU works costs nothing.
ByLimit critical(const HostCells &cells, const ByLimit &spent, const GapTimes::Sum &starved) {
    ByLimit critical{};
    of_limit(critical, HostLimit::gpu) = of_limit(spent, HostLimit::gpu);
    for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
        for (const host_phase phase : {HOST_launch, HOST_copy}) {
            of_limit(critical, limit_of(phase, state)) += cells.ns[phase][state];
        }
        of_limit(critical, limit_of(HOST_host, state)) += starved.state_ns[state];
    }
    const bool mostly_memory =
        of_limit(spent, HostLimit::memory_calls) >= of_limit(spent, HostLimit::cuda_calls);
    of_limit(critical, mostly_memory ? HostLimit::memory_calls : HostLimit::cuda_calls) +=
        starved.state_ns[HOST_GAP_CUDA_CALL];
    return critical;
}

bool waits_for_input(HostLimit limit) {
    return limit == HostLimit::data || limit == HostLimit::lock || limit == HostLimit::sleep ||
           limit == HostLimit::other;
}

std::uint64_t submitting_ns(const ProcessTimes &times) {
    std::uint64_t all = 0;
    for (const host_phase phase : {HOST_launch, HOST_copy}) {
        const auto &states = times.cells.ns[phase];
        all += std::accumulate(states.begin(), states.end(), std::uint64_t{0});
    }
    return all;
}

// A thread's first submission ends no gap, but takes time.
bool has_launched(const ProcessTimes &times) {
    return times.gaps.gaps() > 0 || submitting_ns(times) > 0;
}

// Launches that are not observed end no gap, but their estimated time is there: other threads than
// the one in the call go on. If the call itself is a launch, it has all of the time.
bool others_launch_unobserved(const ProcessTimes &times, std::uint64_t elapsed_ns) {
    constexpr std::uint64_t least_percent = 1;
    constexpr std::uint64_t most_percent = 90;
    const std::uint64_t submitting = 100 * submitting_ns(times);
    return submitting > least_percent * elapsed_ns && submitting <= most_percent * elapsed_ns;
}

bool is_hanging(const ProcessTimes &times, std::uint64_t elapsed_ns) {
    return times.call && times.call->age_ns >= std::max(elapsed_ns, least_hang_ns) &&
           times.gaps.gaps() == 0 && !others_launch_unobserved(times, elapsed_ns);
}

// The wait for the GPU is the limit if it is half of the time, or twice as long as anything else
// and as what the GPU waited: the host need not be behind all the time to be what one should look
// at.
HostLimit largest_of(const ByLimit &spent, std::uint64_t wall, std::uint64_t starved) {
    const auto largest = std::max_element(spent.begin() + 1, spent.end());
    const std::uint64_t waited = spent.front();
    return waited >= wall - waited || waited >= 2 * std::max(*largest, starved)
               ? HostLimit::gpu
               : static_cast<HostLimit>(largest - spent.begin());
}

// If the gaps after waits have more than a tenth of the time, they say what the GPU waits for.
HostLimit limit_of(const HostCells &cells, const ByLimit &spent, const GapTimes::Sum &starved,
                   std::uint64_t wall, std::uint64_t elapsed) {
    constexpr std::uint64_t least = 10;
    return starved.explained_ns() > elapsed / least
               ? largest_of(critical(cells, spent, starved), wall, starved.ns)
               : largest_of(spent, wall, 0);
}

}  // namespace

HostLimit limit_of(std::uint32_t phase, std::uint32_t state) {
    switch (state) {
        case HOST_STATE_throttled:
            return HostLimit::throttled;
        case HOST_STATE_runnable:
            return HostLimit::no_cpu;
        case HOST_STATE_stolen:
            return HostLimit::stolen;
        default:
            break;
    }
    switch (phase) {
        case HOST_host:
            return limit_of_host(state);
        case HOST_launch:
            return HostLimit::launches;
        case HOST_copy:
            return HostLimit::copies;
        case HOST_wait:
            return HostLimit::gpu;
        case HOST_memory:
            return HostLimit::memory_calls;
        default:
            return HostLimit::cuda_calls;
    }
}

std::optional<Conclusion> conclude(const ProcessTimes &times, std::uint64_t elapsed_ns) {
    const std::uint64_t idle = idle_of(times.cells, elapsed_ns);
    const std::uint64_t wall = times.cells.wall_ns() - idle;
    if (wall == 0) {
        return std::nullopt;
    }
    if (is_hanging(times, elapsed_ns)) {
        return Conclusion{
            .limit = HostLimit::hangs, .share = 1, .idle_ns = idle, .call = *times.call};
    }
    Spent spent = spent_in(times.cells);
    Conclusion conclusion{.idle_ns = idle};
    const std::uint64_t elapsed = std::min(wall, elapsed_ns);
    const GapTimes::Sum starved = starved_in(times);
    const GapTimes::Sum all = with_short_gaps(starved, done_in_short_gaps(times, idle));
    note_starvation(conclusion, starved, all.state_ns, elapsed);
    conclusion.starved_all_streams = times.gaps.by_drain[HOST_DRAIN_stream].ns == 0;
    of_limit(spent.ns, HostLimit::lock) -= idle;
    conclusion.limit = limit_of(times.cells, spent.ns, all, wall, elapsed);
    conclusion.share =
        static_cast<double>(of_limit(spent.ns, conclusion.limit)) / static_cast<double>(wall);
    const auto &states = of_limit(spent.in_state, conclusion.limit);
    conclusion.state =
        static_cast<std::uint32_t>(std::ranges::max_element(states) - states.begin());
    if (waits_for_input(conclusion.limit) && !has_launched(times)) {
        conclusion.limit = HostLimit::idle;
    }
    return conclusion;
}

}  // namespace gpusnoop::probes
