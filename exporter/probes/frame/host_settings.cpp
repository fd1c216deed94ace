#include "exporter/probes/frame/host_settings.h"

#include <utility>

namespace gpusnoop::probes {

using namespace std::chrono_literals;

void read_host(config::Section &host, config::Config &config) {
    HostConfig value;
    host.boolean("descendants", value.descendants);
    host.duration("read_interval", value.read_interval, 1s, 5min);
    host.absolute_path("cgroup_path", value.cgroup_path);
    config.set(std::move(value));
}

void read_host_time(config::Section &host, config::Config &config) {
    HostTimeConfig value;
    config::Section time = host.section("time");
    time.boolean("enabled", value.enabled);
    time.finish();
    config::Section gaps = host.section("launch_gaps");
    gaps.duration("min", value.gap_min, 1ms, 1h);
    gaps.integer("keep", value.keep_gaps, 0, 1000);
    gaps.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
