// What a thread waits for that is blocked in a system call.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "bpf/host_time/host_time.h"

namespace gpusnoop::probes {

// Fills the table of the BPF programs, which has a class for each number of a system call: a state,
// or HOST_BY_DESCRIPTOR.
void classify_system_calls(std::span<std::uint8_t, HOST_CALLS> classes);

// The values of the labels `phase` and `state`.
[[nodiscard]] std::string_view host_phase_name(std::uint32_t phase);
[[nodiscard]] std::string_view host_state_name(std::uint32_t state);
// Of launch gaps: `drain` and `state`.
[[nodiscard]] std::string_view host_drain_name(std::uint32_t drain);
[[nodiscard]] std::string_view host_gap_state_name(std::uint32_t state);

// The value of the label `filesystem`, by the s_magic of struct host_file_key.
[[nodiscard]] std::string_view filesystem_name(std::uint32_t magic);

}  // namespace gpusnoop::probes
