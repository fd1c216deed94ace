// A profile: the stacks of processes in some seconds, and its forms for other programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_namer.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

enum class ProfileType {
    cpu,          // what runs: samples at a frequency
    offcpu,       // what does not run: time
    page_faults,  // what touches memory that is not mapped yet: each fault
    heap,         // what a process allocates and does not free: bytes
};

[[nodiscard]] const std::map<std::string, ProfileType> &profile_types();  // by name
// Whether its stacks have an amount besides their number.
[[nodiscard]] constexpr bool has_amount(ProfileType type) {
    return type == ProfileType::offcpu || type == ProfileType::heap;
}
[[nodiscard]] std::string_view name_of(ProfileType type);

enum class ProfileFormat { folded, json, pprof, svg };

[[nodiscard]] const std::map<std::string, ProfileFormat> &profile_formats();  // by name

// One stack of one thread.
struct ProfiledStack {
    processes::ProcessNames process;  // these texts are safe for a terminal
    std::uint32_t pid = 0;
    std::uint32_t tid = 0;
    std::string thread;
    std::string cuda_call;                   // that the thread was inside of; empty: of none
    std::vector<symbols::Frame> frames;      // innermost first
    std::vector<symbols::CodePlace> places;  // of these; fewer: the others are not known
    std::vector<std::string> kernel_frames;  // inside of these, innermost first
    std::uint64_t samples = 0;
    std::uint64_t amount = 0;  // nanoseconds of offcpu, bytes of heap
};

struct Profile {
    ProfileType type = ProfileType::cpu;
    std::chrono::nanoseconds began{};  // CLOCK_REALTIME
    std::chrono::nanoseconds duration{};
    std::uint32_t frequency = 0;  // of cpu, in Hz
    std::vector<ProfiledStack> stacks;
    std::uint64_t samples_lost = 0;      // or times off the CPU
    std::uint64_t stacks_lost = 0;       // samples without their stack
    std::uint64_t samples_left_out = 0;  // of light stacks, for which a document has no room
};

// What flame graphs show of a stack: the thread, the CUDA call, both stacks, outermost first.
// Functions of the kernel end in "_[k]". Unknown frames in a row are one.
[[nodiscard]] std::vector<std::string> frame_names(const ProfiledStack &stack);
// What they show of its weight: nanoseconds of offcpu, bytes of heap, else samples.
[[nodiscard]] std::uint64_t weight_of(const ProfiledStack &stack, ProfileType type);

// For flamegraph.pl and its like: "comm;thread;[in cudaMalloc];outermost;...;innermost 17", by
// stack; of offcpu in microseconds, of heap in bytes, else in samples. Functions of the kernel end
// in "_[k]".
[[nodiscard]] std::string to_folded(const Profile &profile);
// One object; docs/profile.md describes its members.
[[nodiscard]] std::string to_json(const Profile &profile);
// As github.com/google/pprof/blob/main/proto/profile.proto, compressed. Empty if memory runs out.
[[nodiscard]] std::optional<std::string> to_pprof(const Profile &profile);
// A flame graph (symbols/stacks/flame_graph.h).
[[nodiscard]] std::string to_svg(const Profile &profile);

// Any of these. Empty if memory runs out.
[[nodiscard]] std::optional<std::string> to_format(const Profile &profile, ProfileFormat format);

}  // namespace gpusnoop::probes
