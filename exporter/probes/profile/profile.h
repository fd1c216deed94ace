// A profile: the stacks of processes in some seconds, and its forms for other programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

enum class ProfileType {
    cpu,          // what runs: samples at a frequency
    offcpu,       // what does not run: time
    page_faults,  // what touches memory that is not mapped yet: each fault
};

// One stack of one thread.
struct ProfiledStack {
    processes::ProcessNames process;  // these texts are safe for a terminal
    std::uint32_t pid = 0;
    std::uint32_t tid = 0;
    std::string thread;
    std::string cuda_call;                   // that the thread was inside of; empty: of none
    std::vector<symbols::Frame> frames;      // innermost first
    std::vector<std::string> kernel_frames;  // inside of these, innermost first
    std::uint64_t samples = 0;
    std::uint64_t ns = 0;  // of offcpu
};

struct Profile {
    ProfileType type = ProfileType::cpu;
    std::chrono::nanoseconds began{};  // CLOCK_REALTIME
    std::chrono::nanoseconds duration{};
    std::uint32_t frequency = 0;  // of cpu, in Hz
    std::vector<ProfiledStack> stacks;
    std::uint64_t samples_lost = 0;  // or times off the CPU
    std::uint64_t stacks_lost = 0;   // samples without their stack
};

// For flamegraph.pl and its like: "comm;thread;[in cudaMalloc];outermost;...;innermost 17", by
// stack; of offcpu in microseconds, else in samples. Functions of the kernel end in "_[k]".
[[nodiscard]] std::string to_folded(const Profile &profile);
// One object; docs/profile.md describes its members.
[[nodiscard]] std::string to_json(const Profile &profile);
// As github.com/google/pprof/blob/main/proto/profile.proto, compressed. Empty if memory runs out.
[[nodiscard]] std::optional<std::string> to_pprof(const Profile &profile);

}  // namespace gpusnoop::probes
