// The kernel's table of live allocations, as the exporter reads it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// An entry of the table. By now its address may have a younger allocation, which is another entry.
struct LiveEntry {
    cuda_live_key key;
    std::uint64_t born_ns;
};

// The entries of the table, read one by one after `since`.
struct LiveTable {
    std::chrono::nanoseconds since{};
    std::vector<std::pair<cuda_live_key, cuda_live>> entries;
    std::unordered_map<std::uint32_t, cuda_live_process> processes;  // by tgid
    // Ended processes whose memory records were lost.
    std::map<ProcessKey, cuda_live_process> ended = {};
    // Driver contexts that were destroyed, by process and handle, and when.
    std::map<std::pair<ProcessKey, std::uint64_t>, std::uint64_t> destroyed_ns = {};

    [[nodiscard]] bool has_running(const ProcessKey &key) const {
        const auto found = processes.find(key.tgid);
        return found != processes.end() && found->second.since_ns == key.since_ns;
    }
};

}  // namespace gpusnoop::probes
