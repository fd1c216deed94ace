// Finds what this kernel and the exporter's privileges allow, by trying it, never from the version.
#pragma once

#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/attach/uprobe.h"

namespace gpusnoop::ebpf {

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

}  // namespace gpusnoop::ebpf
