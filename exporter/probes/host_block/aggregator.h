// Requests of followed processes to block devices -> histograms and counters. No BPF here: readings
// of the table in, families out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "bpf/host_block.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

// The label `op`, by enum block_operation.
[[nodiscard]] std::string_view block_operation_name(std::uint16_t operation);

struct HostBlockFamilies {
    series::Family &durations, &bytes;
};

HostBlockFamilies make_host_block_families(series::FamilySet &set);

struct HostBlockProcess : KnownProcess {
    // By device, operation and role.
    std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint16_t>, block_times> counted;
};

class HostBlockAggregator : public CountingAggregator<make_host_block_families, HostBlockProcess> {
public:
    explicit HostBlockAggregator(const SeriesSettings &settings);

    // `device` is its name. Counts the difference from what was read of this key before.
    void on_times(const block_key &key, const block_times &now, const std::string &device);
};

// The device's name in /sys, such as "nvme0n1"; "259:0" for one that is not there, and "unknown"
// for 0. `device` is the kernel's number: bpf/host_block.h.
[[nodiscard]] std::string read_block_device_name(std::uint32_t device);

// Remembers them, so a number that another device gets keeps the first one's name.
class BlockDeviceNames {
public:
    [[nodiscard]] const std::string &of(std::uint32_t device);

private:
    std::map<std::uint32_t, std::string> names_;
};

}  // namespace gpusnoop::probes
