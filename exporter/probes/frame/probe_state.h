// The state of a probe: gpusnoop_probe_state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "exporter/base/unsupported.h"

namespace gpusnoop::probes {

enum class ProbeState : std::uint8_t {
    up,
    unsupported,  // the kernel or the node lacks the thing that it looks at
    failed,       // by an error: a reason to act
    disabled,     // by the configuration
};

inline constexpr std::array<std::string_view, 4> probe_state_names = {"up", "unsupported", "failed",
                                                                      "disabled"};

[[nodiscard]] constexpr std::string_view to_string(ProbeState state) {
    return probe_state_names.at(static_cast<std::size_t>(state));
}

// Of a probe that is not up for this reason.
[[nodiscard]] inline ProbeState state_after(const Error &error) {
    return is_unsupported(error) ? ProbeState::unsupported : ProbeState::failed;
}

}  // namespace gpusnoop::probes
