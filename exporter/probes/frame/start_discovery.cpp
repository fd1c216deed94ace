#include "exporter/probes/frame/start_discovery.h"

#include "exporter/probes/frame/exclusion.h"

namespace gpusnoop::probes {

Result<std::unique_ptr<discovery::Discovery>> start_discovery(const config::Config &config,
                                                              discovery::Attacher &attacher) {
    auto discovery =
        discovery::Discovery::open({.rescan_interval = config.discovery.rescan_interval,
                                    .exclude = exclusion(config.discovery.exclude)},
                                   {&attacher});
    if (discovery) {
        (*discovery)->start();
    }
    return discovery;
}

}  // namespace gpusnoop::probes
