#include "exporter/probes/fence/settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

void read_fence(config::Section fence, config::Config &config) {
    FenceConfig value;
    fence.boolean("enabled", value.enabled);
    fence.integer("max_fences", value.max_fences, 64, 1U << 22U);
    fence.ring_bytes("ring_bytes", value.ring_bytes);
    fence.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
