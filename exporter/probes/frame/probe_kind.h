// The description of a kind of probe for the rest of the program. The folder of each probe has one
// ProbeKind, and registry.cpp has the list of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/frame/torch_refusals.h"
#include "exporter/processes/proc.h"
#include "exporter/series/family_set.h"
#include "exporter/sinks/sinks.h"

namespace gpusnoop::probes {

// What can be asked of a machine.
struct KernelView {
    std::function<bool(const std::string &type, const std::string &member)> has_member;
    std::function<bool(const std::string &tracepoint)> has_tracepoint;
    std::function<bool(const std::string &path)> has_file;
};

// What a probe needs of the kernel and of the node that not each of them has. `doctor` says what is
// missing, and what that costs. Texts without a period. Some are about the configuration.
struct KernelNeed {
    std::string_view thing;   // that is missing
    std::string_view reason;  // such as the option that it is built without
    std::string_view costs;   // what does not work then
    bool (*is_met)(const KernelView &kernel, const config::Config &config);
};

// A literal as a parameter of a template.
template <std::size_t size>
struct FixedText {
    consteval FixedText(const char (&literal)[size]) { std::ranges::copy(literal, text); }
    char text[size]{};
};

// For is_met: the kernel has all of these tracepoints, or this member of a type.
template <FixedText... tracepoints>
bool has_tracepoints(const KernelView &kernel, const config::Config & /*config*/) {
    return (kernel.has_tracepoint(tracepoints.text) && ...);
}
template <FixedText type, FixedText member>
bool has_member(const KernelView &kernel, const config::Config & /*config*/) {
    return kernel.has_member(type.text, member.text);
}

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {
struct Kind;
}

namespace gpusnoop::probes {

// What all probes have in common.
struct Shared {
    TracedProcessesPtr traced;
    sinks::SinksPtr sinks;
    CostTablesPtr costs = std::make_shared<CostTables>();
    OverheadLimitsPtr overhead = std::make_shared<OverheadLimits>(processes::cpu_time_of);
    TorchRefusalsPtr torch_refusals = std::make_shared<TorchRefusals>();
    ReportFactsPtr report_facts = std::make_shared<ReportFacts>();
    CallFollowersPtr call_followers = std::make_shared<CallFollowers>();  // enter it when made
};

using MakeProbe = std::unique_ptr<Probe> (*)(const config::Config &, const ebpf::Features &,
                                             const Shared &);

struct ProbeKind {
    std::string_view name;   // of its block in the configuration, and its sub-command of `trace`
    std::string_view title;  // of its families in the reference of metrics

    // Not started; null where the configuration switches the probe off.
    MakeProbe make;

    // A probe, not started, that only enters GPU processes into the targets; null where the
    // configuration switches it off. Only one kind has this.
    MakeProbe make_gpu_processes = nullptr;

    // Reads the block.
    void (*read)(config::Section, config::Config &) = nullptr;
    // Instead, for a host probe: reads its part of the block `host`.
    void (*read_host)(config::Section &host, config::Config &) = nullptr;
    // Whether it follows processes (FollowedProcesses); null: never.
    bool (*follows_processes)(const config::Config &) = nullptr;

    // How it attaches to functions of libraries; nothing if it is switched off. Null for a probe
    // that does not attach to libraries.
    std::optional<ebpf::Attach> (*attach)(const config::Config &) = nullptr;
    // The drain interval of its rings; null if it has no setting for it.
    std::chrono::milliseconds (*drain_interval)(const config::Config &) = nullptr;

    // Whether it sees nothing without kprobes.
    bool needs_kprobes = false;
    // What else it needs; only of a probe that follows processes.
    std::span<const KernelNeed> kernel_needs = {};

    // Whether it attaches to tracepoints that may be a module's; null: never.
    bool (*attaches_to_modules)(const config::Config &) = nullptr;
    // Whether it opens /dev/kmsg; null: never.
    bool (*reads_kernel_log)(const config::Config &) = nullptr;

    // All families of the probe, empty, in the order of the page. Families that always have the
    // label pid are a set of their own.
    std::vector<series::FamilySet> (*declare)();

    // What of gpusnoop_probe_* it can have.
    OwnCounts counts{};

    // Its pages of the API: "xids" is /api/v1/xids.
    std::span<const std::string_view> api_pages = {};

    // The sub-command of `trace`; null: there is none with its name.
    const trace::Kind *trace = nullptr;
    // Sub-commands with names of their own.
    std::span<const trace::Kind *const> named_traces = {};
};

// Makes the probe `P` of the configuration, or of that and what is shared or the processes, if its
// block enables it.
template <typename P, typename Block>
std::unique_ptr<Probe> make_if_enabled(const config::Config &config,
                                       const ebpf::Features & /*features*/, const Shared &shared) {
    if (!config.of<Block>().enabled) {
        return nullptr;
    }
    if constexpr (std::is_constructible_v<P, const config::Config &, const Shared &>) {
        return std::make_unique<P>(config, shared);
    } else if constexpr (std::is_constructible_v<P, const config::Config &,
                                                 const TracedProcessesPtr &>) {
        return std::make_unique<P>(config, shared.traced);
    } else {
        return std::make_unique<P>(config);
    }
}

template <typename Block>
bool is_enabled(const config::Config &config) {
    return config.of<Block>().enabled;
}

// For a block with these settings.
template <typename Block>
std::optional<ebpf::Attach> attach_of(const config::Config &config) {
    const auto &block = config.of<Block>();
    return block.enabled ? std::optional(block.attach) : std::nullopt;
}
template <typename Block>
std::chrono::milliseconds drain_interval_of(const config::Config &config) {
    return config.of<Block>().drain_interval;
}

// One set, with the families of these functions.
template <auto... make>
std::vector<series::FamilySet> declare_families() {
    std::vector<series::FamilySet> sets;
    series::FamilySet &set = sets.emplace_back(one_for_each, false);
    (make(set), ...);
    return sets;
}

}  // namespace gpusnoop::probes
