// The call sites of allocations: the stacks in use, and the names of the sites.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

struct SiteName {
    std::string label;                   // empty until it is known
    std::vector<symbols::Frame> frames;  // innermost first
};

class CallSites {
public:
    CallSites(const CudaProcessTable &processes, const CudaCallbacks &callbacks)
        : processes_(processes), callbacks_(callbacks) {}

    static void started(Process &process);
    // The process no longer needs its stacks.
    void ended(const Process &process);

    // The process has allocated there. Asks for the site's name once.
    void used(Process &process, const Site &site);
    void on_name(symbols::StackReply answer);
    // Empty if it is not known, or not yet.
    [[nodiscard]] static const SiteName &name_of(const Process &process, const Site &site);

private:
    struct State;

    const CudaProcessTable &processes_;
    const CudaCallbacks &callbacks_;
    std::uint64_t next_ticket_ = 1;
    std::unordered_map<std::uint64_t, std::pair<ProcessKey, Site>> tickets_;
    std::unordered_map<std::int32_t, std::uint32_t> stack_users_;  // processes
};

}  // namespace gpusnoop::probes
