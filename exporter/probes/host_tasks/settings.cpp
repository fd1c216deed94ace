#include "exporter/probes/host_tasks/settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

void read_host_tasks(config::Section &host, config::Config &config) {
    HostTasksConfig value;
    config::Section tasks = host.section("tasks");
    tasks.boolean("enabled", value.enabled);
    tasks.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
