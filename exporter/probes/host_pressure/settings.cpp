#include "exporter/probes/host_pressure/settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

void read_host_pressure(config::Section &host, config::Config &config) {
    HostPressureConfig value;
    config::Section pressure = host.section("pressure");
    pressure.boolean("enabled", value.enabled);
    pressure.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
