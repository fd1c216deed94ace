#include "exporter/probes/frame/libraries/start_discovery.h"

#include "exporter/probes/frame/processes/exclusion.h"

namespace gpusnoop::probes {

discovery::Discovery::Settings discovery_settings(const config::Config &config) {
    return {.rescan_interval = config.discovery.rescan_interval,
            .keep = config.discovery.keep,
            .preattach = config.discovery.preattach,
            .exclude = exclusion(config.discovery.exclude)};
}

Result<std::unique_ptr<discovery::Discovery>> start_discovery(const config::Config &config,
                                                              discovery::Attacher &attacher) {
    auto discovery = discovery::Discovery::open(discovery_settings(config), {&attacher});
    if (discovery) {
        (*discovery)->start();
    }
    return discovery;
}

}  // namespace gpusnoop::probes
