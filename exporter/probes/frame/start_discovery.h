// Starts discovery for a trace.
#pragma once

#include <memory>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/discovery/discovery.h"

namespace gpusnoop::probes {

// All running processes are scanned when it returns. The attacher must outlive it.
[[nodiscard]] Result<std::unique_ptr<discovery::Discovery>> start_discovery(
    const config::Config &config, discovery::Attacher &attacher);

}  // namespace gpusnoop::probes
