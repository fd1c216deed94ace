// How a probe is to attach to functions of libraries, as its settings say.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "exporter/ebpf/features.h"

namespace gpusnoop::ebpf {

enum class Attach { automatic, session, multi, perf };

// How the ends of calls may be seen.
enum class Endings {
    automatic,  // by return probes where they are harmless as far as a file shows
    exits,      // by probes on the instructions that leave a function, never by a return probe
};

// As the configuration says them.
inline constexpr std::pair<std::string_view, Attach> attach_names[] = {{"auto", Attach::automatic},
                                                                       {"session", Attach::session},
                                                                       {"multi", Attach::multi},
                                                                       {"perf", Attach::perf}};
inline constexpr std::pair<std::string_view, Endings> endings_names[] = {
    {"auto", Endings::automatic}, {"exits", Endings::exits}};

// The mode that is wanted by name, or all that work on this machine, best first.
[[nodiscard]] std::vector<AttachMode> attach_modes(Attach wanted, const Features &features);

}  // namespace gpusnoop::ebpf
