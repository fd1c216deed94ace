#include "exporter/probes/frame/calls/call_stacks.h"

#include <bpf/bpf.h>

namespace gpusnoop::probes {

std::vector<std::uint64_t> addresses_of(int stacks, std::size_t max_frames, const Site &site) {
    std::vector<std::uint64_t> addresses;
    std::vector<std::uint64_t> frames(max_frames);
    if (site.stack >= 0 && bpf_map_lookup_elem(stacks, &site.stack, frames.data()) == 0) {
        // The first is the traced function itself. The kernel finds who called it by frame
        // pointers, which the function has not set up yet: only since 6.12 is the caller not left
        // out (commit cfa7f3d2c526, "perf,x86: avoid missing caller address in stack traces").
        for (std::size_t i = 1; i < frames.size() && frames[i] != 0; i++) {
            addresses.push_back(frames[i]);
        }
    }
    if (site.caller != 0 && (addresses.empty() || addresses.front() != site.caller)) {
        addresses.insert(addresses.begin(), site.caller);
    }
    return addresses;
}

void forget_stack(int stacks, std::int32_t stack) {
    bpf_map_delete_elem(stacks, &stack);
}

}  // namespace gpusnoop::probes
