// The call sites of CUDA's allocations.
#pragma once

#include <functional>

#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

class CallSites {
public:
    // Both must outlive it.
    CallSites(const CudaProcessTable &processes, const CudaCallbacks &callbacks);

    static void started(Process &process);
    // The process no longer needs its stacks.
    void ended(Process &process);

    // The process has allocated there. Asks for the site's name once.
    void used(Process &process, const Site &site);
    // As SiteNames::forget_idle().
    static void forget_idle(Process &process,
                            const std::function<bool(const Site &)> &holds_memory);
    void on_name(symbols::StackReply answer) { names_.on_name(std::move(answer)); }
    [[nodiscard]] static const ProcessSites &of(const Process &process);
    // Empty if it is not known, or not yet.
    [[nodiscard]] static const SiteName &name_of(const Process &process, const Site &site) {
        return of(process).name_of(site);
    }

private:
    struct State;

    const CudaCallbacks &callbacks_;
    SiteNames names_;
};

}  // namespace gpusnoop::probes
