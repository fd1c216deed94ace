// The settings of a host probe that can only be switched on and off.
#pragma once

#include <string>

#include "exporter/config/config.h"
#include "exporter/config/reader.h"

namespace gpusnoop::probes {

// `T` has `enabled`, its default in it, and `part`: its name in the block `host:`.
template <typename T>
void read_host_switch(config::Section &host, config::Config &config) {
    T value;
    config::Section part = host.section(std::string(T::part));
    part.boolean("enabled", value.enabled);
    part.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
