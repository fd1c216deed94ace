// The block `xid:` of the configuration.
#pragma once

#include <cstdint>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct XidConfig {
    enum class Source : std::uint8_t { automatic, driver, printk, kmsg };

    bool enabled = true;
    Source source = Source::automatic;
    bool count_written_lines = false;
    std::uint32_t ring_bytes = 1U << 17U;  // a power of two
    bool operator==(const XidConfig &) const = default;
};

void read_xid(config::Section xid, config::Config &config);

// Does the probe open /dev/kmsg?
[[nodiscard]] bool xid_reads_kernel_log(const config::Config &config);

}  // namespace gpusnoop::probes
