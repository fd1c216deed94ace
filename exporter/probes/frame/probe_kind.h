// What a probe is to the rest of the program. The folder of each probe has one ProbeKind, and
// registry.cpp has the list of them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/target_processes.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::trace {
struct Kind;
}

namespace gpusnoop::probes {

struct ProbeKind {
    std::string_view name;   // of its block in the configuration, and its sub-command of `trace`
    std::string_view title;  // of its families in the reference of metrics

    // Not started; null where the configuration switches the probe off.
    std::unique_ptr<Probe> (*make)(const config::Config &, const ebpf::Features &,
                                   const TargetProcessesPtr &);

    // All families of the probe, empty, in the order of the page. Families that always have the
    // label pid are a set of their own.
    std::vector<series::FamilySet> (*declare)();

    // The sub-command of `trace`; null: there is none.
    const trace::Kind *trace = nullptr;
};

// One set, with the families of these functions.
template <auto... make>
std::vector<series::FamilySet> declare_families() {
    std::vector<series::FamilySet> sets;
    series::FamilySet &set = sets.emplace_back(one_for_each, false);
    (make(set), ...);
    return sets;
}

}  // namespace gpusnoop::probes
