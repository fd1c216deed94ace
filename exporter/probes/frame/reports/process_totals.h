// What the probe `cuda` has counted of a GPU process that has ended: for reports
// (probes/host_life/reports/).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exporter/probes/frame/processes/job_owner.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// Of a GPU's memory.
struct HeldTotals {
    std::uint64_t peak_bytes = 0;  // at one moment
    double byte_seconds = 0;       // the bytes held, over time
    std::uint64_t unfreed_bytes = 0;
};
using HeldByGpu = std::map<std::string, HeldTotals>;  // by the label `gpu`

// Times are of CLOCK_MONOTONIC.
struct GpuProcessTotals {
    ProcessIdentity process = {};  // with the probe's key
    std::chrono::nanoseconds ended{};
    HeldByGpu held = {};             // also of GPUs that it used and held no memory on
    bool is_memory_complete = true;  // false: it may have held more
    // Of its owners, until now. An owner without processes is forgotten at some time: what it holds
    // after that counts from a later `since`.
    struct Owned {
        JobOwner owner;
        std::chrono::nanoseconds since{};
        HeldByGpu held;
    };
    std::vector<Owned> owned = {};
    std::uint64_t launches = 0;
    std::uint64_t errors = 0;
    std::map<std::string, std::uint64_t> copied_bytes = {};  // by the label `direction`
    bool are_calls_complete = true;  // false: there may have been more of these
    // The same of launches alone: some were not observed, because that costs the process too much.
    bool are_launches_complete = true;
};

}  // namespace gpusnoop::probes
