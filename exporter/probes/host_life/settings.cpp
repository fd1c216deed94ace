#include "exporter/probes/host_life/settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

void read_host_life(config::Section &host, config::Config &config) {
    constexpr std::uint32_t most_kept = 1'000;
    HostLifeConfig value;
    config::Section life = host.section("life");
    life.boolean("enabled", value.enabled);
    life.integer("keep", value.keep, 0, most_kept);
    life.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
