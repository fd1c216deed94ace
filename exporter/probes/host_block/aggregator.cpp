#include "exporter/probes/host_block/aggregator.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "exporter/base/text/text.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_counts.h"

namespace gpusnoop::probes {

namespace {

constexpr std::array<std::string_view, BLOCK_OPERATIONS> operation_names = {
    "read", "write", "flush", "discard", "other"};

}  // namespace

std::string_view block_operation_name(std::uint16_t operation) {
    return operation_names.at(operation);
}

HostBlockFamilies make_host_block_families(series::FamilySet &set) {
    const std::vector<series::Label> labels = {{"role"}, {"device"}, {"op", true}};
    return {
        .durations = set.histogram("host_block_io_duration_seconds",
                                   "Duration of requests to block devices that followed "
                                   "processes issued, including time in the device's queue.",
                                   labels, BLOCK_BOUNDS, 1e9),
        .bytes = set.counter("host_block_io_bytes_total",
                             "Bytes of successful requests to block devices that followed "
                             "processes issued.",
                             labels),
    };
}

HostBlockAggregator::HostBlockAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, counts_grace) {}

void HostBlockAggregator::on_times(const block_key &key, const block_times &now,
                                   const std::string &device) {
    if (key.operation >= BLOCK_OPERATIONS || key.role >= FOLLOWED_ROLES) {
        return;
    }
    HostBlockProcess &process = processes_.of({key.tgid, key.since_ns});
    block_times &counted = process.counted[{key.device, key.operation, key.role}];
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(key.role));
    values.push_back(device);
    values.emplace_back(block_operation_name(key.operation));
    std::array<std::uint64_t, BLOCK_BUCKETS + 1> added{};
    for (std::size_t i = 0; i < BLOCK_BUCKETS; i++) {
        added.at(i) = grown(now.durations[i], counted.durations[i]);
    }
    added[BLOCK_BUCKETS] = grown(now.nanoseconds, counted.nanoseconds);
    of_.durations.observe_all(of_.durations.slot(process.owner, values), added);
    of_.bytes.add(of_.bytes.slot(process.owner, values), grown(now.bytes, counted.bytes));
}

std::string read_block_device_name(std::uint32_t device) {
    if (device == 0) {
        return "unknown";  // the request has no disk
    }
    const std::string number =
        fmt::format("{}:{}", device >> BLOCK_MINOR_BITS, device & ((1U << BLOCK_MINOR_BITS) - 1));
    std::array<char, 4096> target{};
    const ssize_t size =
        ::readlink(("/sys/dev/block/" + number).c_str(), target.data(), target.size());
    if (size <= 0) {
        return number;
    }
    const std::string_view path(target.data(), static_cast<std::size_t>(size));
    const std::string name = to_valid_utf8(path.substr(path.rfind('/') + 1), 32);
    return name.empty() ? number : name;
}

const std::string &BlockDeviceNames::of(std::uint32_t device) {
    const auto found = names_.find(device);
    return found != names_.end()
               ? found->second
               : names_.emplace(device, read_block_device_name(device)).first->second;
}

}  // namespace gpusnoop::probes
