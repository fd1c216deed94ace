// The CUDA probe: calls of the CUDA runtime in every process.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/target_processes.h"

namespace gpusnoop::probes {

// Shares its table of processes with `targets`.
std::unique_ptr<Probe> make_cuda(const config::Config &config, const ebpf::Features &features,
                                 const TargetProcessesPtr &targets);

}  // namespace gpusnoop::probes
