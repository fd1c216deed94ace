#include "exporter/probes/nvlink/settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

void read_nvlink(config::Section nvlink, config::Config &config) {
    NvlinkConfig value;
    nvlink.boolean("enabled", value.enabled);
    nvlink.ring_bytes("ring_bytes", value.ring_bytes);
    nvlink.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
