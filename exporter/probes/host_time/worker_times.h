// What the workers of a process, such as its data loaders, spend their time on.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bpf/host_time/host_time.h"

namespace gpusnoop::probes {

// Of all their threads, also of ended ones. All numbers only grow, but for `processes`.
struct WorkerTimes {
    struct FileWaits {
        std::uint64_t waits = 0;
        std::uint64_t ns = 0;
    };
    std::uint64_t processes = 0;  // that run
    std::array<std::uint64_t, HOST_STATE_COUNT> state_ns{};
    std::map<std::string, FileWaits, std::less<>> files;  // by file system

    // What these have more than `before`.
    [[nodiscard]] WorkerTimes since(const WorkerTimes &before) const;
};

// {"processes":8,"seconds":{"file":61.5},"file_waits":{"nfs":{"waits":512,"seconds":61.5}}},
// without what is 0.
[[nodiscard]] nlohmann::ordered_json to_json(const WorkerTimes &workers);

}  // namespace gpusnoop::probes
