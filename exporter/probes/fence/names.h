// The names of DMA fence events, as in the label `event` and in traces.
#pragma once

#include <array>
#include <string_view>

#include "bpf/fence/fence.h"

namespace gpusnoop::probes {

// By enum fence_event.
inline constexpr std::array<std::string_view, FENCE_EVENT_COUNT> fence_event_names = {
#define EVENT(name) #name,
    FENCE_EVENTS(EVENT)
#undef EVENT
};

}  // namespace gpusnoop::probes
