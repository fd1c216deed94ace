// The blocks of the probes of the kernel's side.
#pragma once

#include "exporter/config/config.h"
#include "exporter/config/reader.h"

namespace gpusnoop::config {

void read_targets(Section targets, Config::Targets &value);
void read_syscall(Section syscall, Config::Syscall &value);
void read_fence(Section fence, Config::Fence &value);

}  // namespace gpusnoop::config
