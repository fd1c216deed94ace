// Discovery as the configuration sets it.
#pragma once

#include <memory>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/discovery/discovery.h"

namespace gpusnoop::probes {

[[nodiscard]] discovery::Discovery::Settings discovery_settings(const config::Config &config);

// For a trace. All running processes are scanned when it returns. The attacher must outlive it.
[[nodiscard]] Result<std::unique_ptr<discovery::Discovery>> start_discovery(
    const config::Config &config, discovery::Attacher &attacher);

}  // namespace gpusnoop::probes
