#include "exporter/probes/host_time/recent.h"

#include <spdlog/fmt/fmt.h>

#include <iterator>
#include <limits>
#include <utility>

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

void RecentTimes::on_reading(const HostTimeAggregator &aggregator, nanoseconds now) {
    constexpr std::chrono::minutes age{1};
    std::map<ProcessKey, Process> processes;
    aggregator.for_each([&](const ProcessIdentity &identity, const ProcessTimes &times) {
        const Mark mark{.at = now, .times = times};
        const auto known = processes_.find(identity.key);
        Process process = known == processes_.end()
                              ? Process{.older = mark, .newer = mark, .quiet = mark, .now = mark}
                              : known->second;
        if (times.gaps.gaps() != process.now.times.gaps.gaps()) {
            process.quiet = mark;
        }
        process.now = mark;
        if (now - process.newer.at >= age) {
            process.older = std::exchange(process.newer, mark);
        }
        processes.emplace(identity.key, process);
    });
    processes_ = std::move(processes);
}

// A call hangs long before the last minute or two have nothing else.
RecentTimes::Window RecentTimes::window_of(const Process &process) {
    const auto since = [&](const Mark &mark) {
        Window window{.elapsed = process.now.at - mark.at, .conclusion = {}};
        window.conclusion = conclude(process.now.times.since(mark.times),
                                     static_cast<std::uint64_t>(window.elapsed.count()));
        return window;
    };
    const Window quiet = since(process.quiet);
    return quiet.conclusion && quiet.conclusion->limit == HostLimit::hangs ? quiet
                                                                           : since(process.older);
}

// The last process with this id is the one that runs.
std::optional<RecentTimes::Verdict> RecentTimes::verdict_of(std::uint32_t pid) const {
    const auto after = processes_.upper_bound({pid, std::numeric_limits<std::uint64_t>::max()});
    if (after == processes_.begin() || std::prev(after)->first.tgid != pid) {
        return std::nullopt;
    }
    const Window window = window_of(std::prev(after)->second);
    if (!window.conclusion) {
        return std::nullopt;
    }
    return Verdict{
        .word = key_of(window.conclusion->limit),
        .sentence = fmt::format("In the last {} s: {}",
                                std::chrono::round<std::chrono::seconds>(window.elapsed).count(),
                                sentence_of(*window.conclusion))};
}

}  // namespace gpusnoop::probes
