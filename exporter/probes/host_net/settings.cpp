#include "exporter/probes/host_net/settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

using namespace std::chrono_literals;

void read_host_net(config::Section &host, config::Config &config) {
    constexpr std::uint32_t most_sockets = 1'048'576;
    HostNetConfig value;
    config::Section net = host.section("net");
    net.boolean("enabled", value.enabled);
    net.duration("look_interval", value.look_interval, 1s, 5min);
    net.integer("max_sockets", value.max_sockets, 0, most_sockets);
    net.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
