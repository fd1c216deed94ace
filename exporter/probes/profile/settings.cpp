#include "exporter/probes/profile/settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

using namespace std::chrono_literals;

void read_profile(config::Section profile, config::Config &config) {
    ProfileConfig value;
    profile.boolean("enabled", value.enabled);
    profile.duration("max_duration", value.max_duration, 1s, 1h);
    profile.integer("max_stacks", value.max_stacks, 256, 16384);
    profile.integer("continuous_frequency", value.continuous_frequency, 0, 199);
    profile.duration("keep", value.keep, 10s, 1h);
    profile.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
