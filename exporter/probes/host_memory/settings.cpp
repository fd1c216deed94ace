#include "exporter/probes/host_memory/settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

void read_host_memory(config::Section &host, config::Config &config) {
    HostMemoryConfig value;
    config::Section memory = host.section("memory");
    memory.boolean("enabled", value.enabled);
    memory.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
