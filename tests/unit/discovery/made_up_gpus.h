// GPUs of a node, environments of processes, and which of the GPUs these see.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/visible_gpus.h"

namespace gpusnoop::discovery {

// The host's index of each device, std::nullopt if it is not known.
using Expected = std::vector<std::optional<unsigned>>;

inline const std::string kUuidA = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
inline const std::string kUuidB = "GPU-8932f938-0000-4106-c12f-20bd9faed9f6";
inline const std::string kUuidC = "GPU-0b2c0000-d72c-4106-c12f-20bd9faed9f6";
inline const std::string kUuidD = "GPU-ffff0000-d72c-4106-c12f-20bd9faed9f6";

// As a container sees them that has these of the host's four GPUs, all of one model.
inline std::vector<Gpu> gpus(const std::vector<unsigned> &hosts_indices = {0, 1, 2, 3}) {
    const std::vector<std::string> uuids{kUuidA, kUuidB, kUuidC, kUuidD};
    std::vector<Gpu> result;
    for (const unsigned index : hosts_indices) {
        Gpu gpu;
        gpu.index = index;
        gpu.uuid = uuids.at(index);
        gpu.name = "NVIDIA H200";
        gpu.minor = static_cast<int>(index);
        result.push_back(gpu);
    }
    return result;
}

// As in /proc/PID/environ.
inline std::string block(const std::vector<std::string> &variables) {
    std::string bytes;
    for (const std::string &variable : variables) {
        bytes += variable + '\0';
    }
    return bytes;
}

inline std::string with_list(const std::string &list) {
    return block({"PATH=/bin", "CUDA_VISIBLE_DEVICES=" + list, "HOME=/"});
}

// The first devices; no others are known.
inline Expected devices(const VisibleGpus &visible, std::size_t count) {
    Expected result;
    for (unsigned ordinal = 0; ordinal < count; ordinal++) {
        result.push_back(visible.host_index(ordinal));
    }
    for (const auto ordinal : {count, count + 1, std::size_t{300}, std::size_t{UINT32_MAX}}) {
        CHECK_FALSE(visible.host_index(static_cast<unsigned>(ordinal)));
    }
    return result;
}

}  // namespace gpusnoop::discovery
