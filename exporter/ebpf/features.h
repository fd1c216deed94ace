// Finds what this kernel and the exporter's privileges allow, by trying it, never from the version.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/attach/uprobe.h"

namespace gpusnoop::ebpf {

// Tests how a program ends if a system call that its author did not know of fails.

// Runs `work` in a child process under a seccomp filter that makes this system call fail, as
// containers' filters do with calls newer than themselves. The failure says how the child ended.
// Also succeeds where such filters do not exist.
[[nodiscard]] Result<> survives_without(int system_call, void (*work)());

struct Feature {
    std::string name;  // the label `feature`
    bool available;
    std::string reason;  // why not; empty when available
};

struct Features {
    std::vector<Feature> list;

    [[nodiscard]] const Feature *find(std::string_view name) const;
    // False: a program would die at the first return if its seccomp filter does not know the system
    // call that return probes end with (on x86_64 since Linux 6.11; since 6.14 no filter is asked).
    [[nodiscard]] bool has_harmless_return_probes() const;
    // Whether a link of that mode can be of one process. Of the mode multi, before Linux 6.10 and
    // where its fix was not taken over, such a link sees the calls of one thread only.
    [[nodiscard]] bool attaches_to_one(AttachMode mode) const;
    // The ways to attach to a call that work on this machine, best first.
    [[nodiscard]] std::vector<AttachMode> attach_modes() const;
};

// Loads one-instruction programs and attaches them to a function of this program.
Features probe_features();

// Success, or an error sentence for a machine that cannot run the exporter at all.
Result<> check_requirements(const Features &features);

// How a probe attaches to functions of libraries, from its settings.

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
