// Exits of the virtual machines that followed processes run.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "bpf/host_kvm.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// The part `kvm:` of the block `host:` of the configuration.
struct HostKvmConfig {
    static constexpr std::string_view part = "kvm";
    bool enabled = false;
    bool operator==(const HostKvmConfig &) const = default;
};

extern const ProbeKind host_kvm_kind;

// For a trace: drain() passes on each event.
using KvmTrace = std::function<void(const kvm_record &, const ProcessIdentity &)>;
std::unique_ptr<Probe> make_kvm_tracer(const config::Config &config,
                                       const TracedProcessesPtr &traced, KvmTrace trace);

}  // namespace gpusnoop::probes
