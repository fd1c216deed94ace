// Exits of the virtual machines that followed processes run.
#pragma once

#include <cstdint>

#include "bpf/host_kvm.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::probes {

using HostKvmConfig = HostSwitch<"kvm", false>;

extern const ProbeKind host_kvm_kind;

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

// `trace kvm`: each return of a virtual CPU to its process, and each end of a halt.
extern const Kind kvm_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const kvm_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
