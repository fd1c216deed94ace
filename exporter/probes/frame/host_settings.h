// The block `host:` of the configuration: what all host probes have in common. Each reads its part.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/config/config.h"
#include "exporter/config/reader.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

struct HostConfig {
    bool descendants = true;  // follow what followed processes start, too
    // How often the host probes read what no ring brings, besides at scrapes.
    std::chrono::milliseconds read_interval = std::chrono::seconds(5);
    std::string cgroup_path = "/sys/fs/cgroup";  // where the host's cgroups are mounted
    bool operator==(const HostConfig &) const = default;
};

// Of the probe host_time. The probe cuda reads it, too: it keeps the accounts of threads.
struct HostTimeConfig {
    bool enabled = true;
    // Launch gaps this long or longer are explained.
    std::chrono::milliseconds gap_min{1};
    std::uint32_t keep_gaps = 100;  // for /api/v1/launch_gaps
    bool operator==(const HostTimeConfig &) const = default;
};

void read_host_time(config::Section &host, config::Config &config);

void read_host(config::Section &host, config::Config &config);

// The settings of a host probe that can only be switched on and off: a part of the block `host:`.
template <FixedText name, bool by_default>
struct HostSwitch {
    static constexpr std::string_view part = name.text;
    bool enabled = by_default;
    bool operator==(const HostSwitch &) const = default;
};

template <typename T>
void read_host_switch(config::Section &host, config::Config &config) {
    T value;
    config::Section part = host.section(std::string(T::part));
    part.boolean("enabled", value.enabled);
    part.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
