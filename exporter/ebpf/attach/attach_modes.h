// How a probe attaches to functions of libraries, from its settings.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "exporter/ebpf/features.h"

namespace gpusnoop::ebpf {

enum class Attach { automatic, session, multi, perf };

// How a probe sees the ends of calls.
enum class Endings {
    automatic,  // by return probes, if the file shows no reason against them
    exits,      // by probes on the instructions that leave a function, never by a return probe
    // The same, but conditional jumps are taken for none of these: for functions that so leave only
    // to parts of their own.
    returns,
};

// Their names in the configuration.
inline constexpr std::pair<std::string_view, Attach> attach_names[] = {{"auto", Attach::automatic},
                                                                       {"session", Attach::session},
                                                                       {"multi", Attach::multi},
                                                                       {"perf", Attach::perf}};
inline constexpr std::pair<std::string_view, Endings> endings_names[] = {
    {"auto", Endings::automatic}, {"exits", Endings::exits}};
// Of named functions.
inline constexpr std::pair<std::string_view, Endings> function_endings_names[] = {
    {"auto", Endings::automatic}, {"exits", Endings::exits}, {"returns", Endings::returns}};

// The mode named by the setting, or all modes that work on this machine, best first.
[[nodiscard]] std::vector<AttachMode> attach_modes(Attach wanted, const Features &features);

}  // namespace gpusnoop::ebpf
