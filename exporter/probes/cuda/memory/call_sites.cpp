#include "exporter/probes/cuda/memory/call_sites.h"

#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

struct CallSites::State final : PartState {
    static constexpr Part part = Part::call_sites;

    ProcessSites sites;
};

CallSites::CallSites(const CudaProcessTable &processes, const CudaCallbacks &callbacks)
    : callbacks_(callbacks),
      names_({.find = [&processes](const ProcessKey &key) -> ProcessSites * {
                  Process *const process = processes.find(key);
                  return process == nullptr ? nullptr : &state_of<State>(*process).sites;
              },
              .forget_stack = [&callbacks](std::int32_t stack) { callbacks.forget_stack(stack); },
              .label_of = [](const auto &frames) { return symbols::site_label(frames); }}) {}

void CallSites::started(Process &process) {
    add_state<State>(process);
}

void CallSites::ended(Process &process) {
    names_.ended(state_of<State>(process).sites);
}

void CallSites::used(Process &process, const Site &site) {
    if (const auto ticket = names_.used(state_of<State>(process).sites, process, site)) {
        callbacks_.ask_for_site(*ticket, process, site);
    }
}

void CallSites::forget_idle(Process &process,
                            const std::function<bool(const Site &)> &holds_memory) {
    SiteNames::forget_idle(state_of<State>(process).sites, holds_memory);
}

const ProcessSites &CallSites::of(const Process &process) {
    return state_of<State>(process).sites;
}

}  // namespace gpusnoop::probes
