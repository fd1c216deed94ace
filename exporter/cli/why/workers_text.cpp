#include "exporter/cli/why/workers_text.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/cli/why/numbers.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::why {

namespace {

// Their other threads, such as those of pools, are idle in the other ones.
constexpr std::array<std::uint32_t, 10> told_states = {
    HOST_STATE_running,    HOST_STATE_runnable, HOST_STATE_throttled, HOST_STATE_io_uring,
    HOST_STATE_file,       HOST_STATE_socket,   HOST_STATE_pipe,      HOST_STATE_device,
    HOST_STATE_page_fault, HOST_STATE_memory};

// "file (mostly nfs, 44.0 ms each)".
std::string state_text(std::uint32_t state, const probes::WorkerTimes &workers) {
    const std::string name(probes::host_state_name(state));
    const auto most = std::ranges::max_element(workers.files, {},
                                               [](const auto &entry) { return entry.second.ns; });
    if (state != HOST_STATE_file || most == workers.files.end() || most->second.waits == 0) {
        return name;
    }
    const auto &[filesystem, waits] = *most;
    return fmt::format("{} (mostly {}, {:.1f} ms each)", name, filesystem,
                       static_cast<double>(waits.ns) / static_cast<double>(waits.waits) / 1e6);
}

}  // namespace

std::string workers_text(const probes::WorkerTimes &workers, std::uint64_t elapsed_ns) {
    constexpr std::size_t most = 3;
    const std::uint64_t all_ns = workers.processes * elapsed_ns;
    if (all_ns == 0) {
        return "";
    }
    std::vector<std::pair<std::uint64_t, std::uint32_t>> largest;
    for (const std::uint32_t state : told_states) {
        if (percent(workers.state_ns[state], all_ns) >= least_shown_percent) {
            largest.emplace_back(workers.state_ns[state], state);
        }
    }
    std::ranges::stable_sort(largest, std::ranges::greater{}, [](auto &one) { return one.first; });
    largest.resize(std::min(largest.size(), most));
    std::string text;
    for (const auto &[ns, state] : largest) {
        text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", percent(ns, all_ns),
                            state_text(state, workers));
    }
    return text.empty() ? ""
                        : fmt::format("  Its {}: {}.\n",
                                      workers.processes == 1
                                          ? "worker"
                                          : std::to_string(workers.processes) + " workers",
                                      text);
}

}  // namespace gpusnoop::why
