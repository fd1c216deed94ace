#include "exporter/probes/host_time/recent.h"

#include <spdlog/fmt/fmt.h>

#include <iterator>
#include <limits>
#include <utility>

#include "exporter/probes/host_time/conclusion.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

void RecentTimes::on_reading(const HostTimeAggregator &aggregator, nanoseconds now) {
    constexpr std::chrono::minutes age{1};
    std::map<ProcessKey, Process> processes;
    aggregator.for_each([&](const ProcessIdentity &identity, const ProcessTimes &times) {
        const Mark mark{.at = now, .times = times};
        const auto known = processes_.find(identity.key);
        Process process = known == processes_.end()
                              ? Process{.older = mark, .newer = mark, .now = {}}
                              : known->second;
        process.now = mark;
        if (now - process.newer.at >= age) {
            process.older = std::exchange(process.newer, mark);
        }
        processes.emplace(identity.key, process);
    });
    processes_ = std::move(processes);
}

// The last process with this id is the one that runs.
std::optional<std::string> RecentTimes::sentence_of(std::uint32_t pid) const {
    const auto after = processes_.upper_bound({pid, std::numeric_limits<std::uint64_t>::max()});
    if (after == processes_.begin() || std::prev(after)->first.tgid != pid) {
        return std::nullopt;
    }
    const Process &process = std::prev(after)->second;
    const nanoseconds elapsed = process.now.at - process.older.at;
    const auto conclusion = conclude(process.now.times.since(process.older.times),
                                     static_cast<std::uint64_t>(elapsed.count()));
    return conclusion ? std::optional(
                            fmt::format("In the last {} s: {}",
                                        std::chrono::round<std::chrono::seconds>(elapsed).count(),
                                        probes::sentence_of(*conclusion)))
                      : std::nullopt;
}

}  // namespace gpusnoop::probes
