#include "exporter/probes/functions/limit/dear_functions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "exporter/base/glob.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

std::vector<DearFunctions::Dear> DearFunctions::look(nanoseconds now, std::vector<Use> uses) {
    const nanoseconds share = share_of(now - std::exchange(looked_, now));
    const nanoseconds most = share_of(window);
    std::map<ProcessKey, nanoseconds> costs;
    for (Use &use : uses) {
        use.cost *= MaxOverhead::true_cost;
        costs[use.process] += use.cost;
        left_.try_emplace(use.process, most);
    }
    std::ranges::stable_sort(uses, [](const Use &a, const Use &b) { return a.cost > b.cost; });
    std::vector<Dear> dear;
    for (auto &[process, left] : left_) {
        const nanoseconds cost = costs[process];
        left = std::clamp(left + share - cost, -most, most);
        if (left <= nanoseconds(0)) {
            choose(process, cost, share, uses, dear);
        }
    }
    // As any process that is not known.
    std::erase_if(left_, [&](const auto &entry) { return entry.second == most; });
    std::erase_if(pauses_, [&](const auto &entry) {
        return entry.second.is_over && now >= entry.second.until;
    });
    return dear;
}

void DearFunctions::choose(const ProcessKey &process, nanoseconds cost, nanoseconds share,
                           const std::vector<Use> &dearest_first, std::vector<Dear> &dear) const {
    const auto is_paused = [&](const FunctionPlace &function) {
        const auto pause = pauses_.find(function);
        return pause != pauses_.end() && !pause->second.is_over;
    };
    for (const Use &use : dearest_first) {
        if (use.process != process) {
            continue;
        }
        const auto chosen = std::ranges::find(dear, use.function, &Dear::function);
        if (chosen != dear.end()) {
            chosen->processes.push_back(process);
        }
        if (chosen != dear.end() || is_paused(use.function)) {
            cost -= use.cost;
        }
    }
    const auto is_little = [&](const Use &use) {
        return static_cast<double>(use.cost.count()) <= worth * static_cast<double>(share.count());
    };
    const auto can_choose = [&](const Use &use) {
        return use.process == process && use.can_pause && !is_paused(use.function) &&
               std::ranges::find(dear, use.function, &Dear::function) == dear.end();
    };
    nanoseconds of_little{};
    for (const Use &use : dearest_first) {
        if (is_little(use) && can_choose(use)) {
            of_little += use.cost;
        }
    }
    for (const Use &use : dearest_first) {
        if (cost <= share || (is_little(use) && of_little <= share)) {
            return;
        }
        if (can_choose(use)) {
            cost -= use.cost;
            dear.push_back({use.function, {process}});
        }
    }
}

std::vector<FunctionPlace> DearFunctions::due(nanoseconds now) const {
    std::vector<FunctionPlace> due;
    for (const auto &[function, pause] : pauses_) {
        if (!pause.is_over && now + slack >= pause.until) {
            due.push_back(function);
        }
    }
    return due;
}

bool DearFunctions::paused(const FunctionPlace &function, nanoseconds now) {
    const auto [found, is_new] = pauses_.try_emplace(function);
    Pause &pause = found->second;
    if (!is_new) {
        pause.length = std::min<nanoseconds>(2 * pause.length, longest_pause);
    }
    pause.is_over = false;
    pause.until = now + pause.length;
    return is_new;
}

void DearFunctions::resumed(const FunctionPlace &function, nanoseconds now) {
    if (const auto found = pauses_.find(function); found != pauses_.end()) {
        found->second.is_over = true;
        found->second.until = now + std::max<nanoseconds>(window, found->second.length);
    }
}

bool is_always_observed(std::string_view symbol) {
    // The runtime's and the driver's names. A * at the end is for variants such as _ptsz and _v2.
    static const std::vector<std::string> globs = {"cu*Synchronize*",
                                                   "cudaMalloc*",
                                                   "cudaHostAlloc*",
                                                   "cudaHostRegister*",
                                                   "cudaHostUnregister*",
                                                   "cudaFree*",
                                                   "cudaMemcpy*",
                                                   "cudaMemset*",
                                                   "cudaMemPrefetch*",
                                                   "cudaMemPoolTrimTo*",
                                                   "cuMemAlloc*",
                                                   "cuMemHostAlloc*",
                                                   "cuMemHostRegister*",
                                                   "cuMemHostUnregister*",
                                                   "cuMemCreate*",
                                                   "cuMemMap*",
                                                   "cuMemUnmap*",
                                                   "cuMemRelease*",
                                                   "cuMemFree*",
                                                   "cuMemcpy*",
                                                   "cuMemset*",
                                                   "cuMemPrefetch*",
                                                   "cuMemPoolTrimTo*",
                                                   "nccl*",
                                                   "pnccl*"};
    return matches_any(globs, symbol);
}

}  // namespace gpusnoop::probes
