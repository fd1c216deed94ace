// What limits a program that launches work on a GPU, by where the time of its launching threads
// went.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/probes/host_time/process_times.h"

namespace gpusnoop::probes {

// What a launching thread's time is spent on. Each cell of phase and state is one of these, but for
// the last two.
enum class HostLimit : std::uint8_t {
    gpu,           // waits for it
    launches,      // inside of these, as of the following three
    copies,        // asynchronous ones
    memory_calls,  // cudaMalloc, cudaFree and the like
    cuda_calls,    // all others
    host,          // runs outside of CUDA calls
    data,          // blocked outside of CUDA calls, as are all of the following but the last three
    lock,
    file,
    page_fault,
    address_space,
    sleep,
    child,
    device,
    stopped,
    other,
    throttled,  // anywhere
    no_cpu,
    stolen,
    idle,   // blocked, and nothing was launched
    hangs,  // one call took all of the time, and nothing was launched
};
inline constexpr std::size_t host_limits = static_cast<std::size_t>(HostLimit::hangs) + 1;

// A call hangs from this age on, if it has taken all of the time that is looked at.
inline constexpr std::uint64_t least_hang_ns = 5'000'000'000;

[[nodiscard]] HostLimit limit_of(std::uint32_t phase, std::uint32_t state);
// "gpu", "memory_calls": for programs.
[[nodiscard]] std::string_view key_of(HostLimit limit);

struct Conclusion {
    HostLimit limit = HostLimit::gpu;
    double share = 0;                          // of the time, 0 to 1
    std::uint32_t state = HOST_STATE_running;  // the one that most of that is in
    // Of the time of several launching threads, what one waited for the others of the process, as
    // only one of them launches at a time. No share is of this.
    std::uint64_t idle_ns = 0;
    // The part of the time in which the host kept the GPU waiting, as the gaps after waits say it,
    // and the state (or HOST_GAP_CUDA_CALL) that most of these are in, if they are explained.
    // Unless all of them begin with a wait for the device, other streams than the one that was
    // waited for may have been busy.
    double starved = 0;  // 0 to 1
    std::optional<std::uint32_t> starved_state{};
    bool starved_all_streams = true;
    CurrentCall call{};  // that hangs
};

// Of the times of a process in so much wall time. Nothing: its threads had no time.
[[nodiscard]] std::optional<Conclusion> conclude(const ProcessTimes &times,
                                                 std::uint64_t elapsed_ns);

// "The GPU is the limit: the launching thread waited for it 82 % of the time."
[[nodiscard]] std::string sentence_of(const Conclusion &conclusion);
// What to do, in a sentence or some.
[[nodiscard]] std::string_view advice_of(HostLimit limit);

}  // namespace gpusnoop::probes
