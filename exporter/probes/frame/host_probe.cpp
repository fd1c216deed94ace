#include "exporter/probes/frame/host_probe.h"

namespace gpusnoop::probes {

SeriesSettings host_series_settings(const config::Config &config,
                                    const TracedProcessesPtr &traced) {
    SeriesSettings settings = series_settings(config);
    settings.look_up = [traced](ProcessIdentity &identity) {
        const auto followed = traced->follow();
        return followed ? (*followed)->identify(identity) : look_up(identity);
    };
    return settings;
}

}  // namespace gpusnoop::probes
