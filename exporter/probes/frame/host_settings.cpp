#include "exporter/probes/frame/host_settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

using namespace std::chrono_literals;

void read_host(config::Section &host, config::Config &config) {
    HostConfig value;
    host.boolean("descendants", value.descendants);
    host.duration("read_interval", value.read_interval, 1s, 5min);
    config.set(value);
}

}  // namespace gpusnoop::probes
