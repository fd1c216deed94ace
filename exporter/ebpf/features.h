// What this kernel and our privileges allow, found by trying, never from the version.
#pragma once

#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/uprobe.h"

namespace gpusnoop::ebpf {

struct Feature {
    std::string name;  // the label `feature`
    bool available;
    std::string reason;  // why not; empty when available
};

struct Features {
    std::vector<Feature> list;

    [[nodiscard]] const Feature *find(std::string_view name) const;
    // False: a program whose seccomp filter does not know the system call that return probes end
    // with (on x86_64 since Linux 6.11; since 6.14 no filter is asked) would die at the first
    // return.
    [[nodiscard]] bool has_harmless_return_probes() const;
    // The ways to attach to a call that work here, best first.
    [[nodiscard]] std::vector<AttachMode> attach_modes() const;
};

// Loads and attaches one-instruction programs (to a function of this very program).
Features probe_features();

// The sentence for someone whose machine cannot run the exporter at all, or success.
Result<> check_requirements(const Features &features);

}  // namespace gpusnoop::ebpf
