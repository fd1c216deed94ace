// Which functions cost a process too much to be observed all the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/functions/attach/function_ids.h"

namespace gpusnoop::probes {

// Decides only. Each process may cost its share of a CPU, and can save or owe what ten seconds
// bring. While it has nothing left, the functions that cost it the most are paused, for all
// processes, so that the rest costs no more than the share. A function that is dear again soon
// after its pause is paused for twice as long.
class DearFunctions {
public:
    static constexpr std::chrono::seconds window{10};
    // Of the share: what a function costs at least that is worth a pause. Those that cost less are
    // paused only if together they cost more than the share.
    static constexpr double worth = 0.1;
    static constexpr std::chrono::seconds first_pause{1};
    static constexpr std::chrono::minutes longest_pause{10};
    // Looks are not exactly a second apart.
    static constexpr std::chrono::milliseconds slack{500};

    struct Use {
        ProcessKey process;
        FunctionPlace function;
        std::chrono::nanoseconds cost{};  // of its calls since the last look
        bool can_pause = false;
    };

    // `percent` of one CPU.
    DearFunctions(std::uint32_t percent, std::chrono::nanoseconds now)
        : percent_(percent), looked_(now) {}

    struct Dear {
        FunctionPlace function;
        std::vector<ProcessKey> processes;  // that it costs too much
    };
    // What is to be paused now. For once a second.
    [[nodiscard]] std::vector<Dear> look(std::chrono::nanoseconds now, std::vector<Use> uses);
    // What has been paused long enough.
    [[nodiscard]] std::vector<FunctionPlace> due(std::chrono::nanoseconds now) const;

    // It is paused now; or its probes could not be changed, and are left alone for as long. Whether
    // it has not been shortly before.
    bool paused(const FunctionPlace &function, std::chrono::nanoseconds now);
    void resumed(const FunctionPlace &function, std::chrono::nanoseconds now);
    // It is no longer a function to be attached to.
    void forget(const FunctionPlace &function) { pauses_.erase(function); }

private:
    struct Pause {
        bool is_over = false;
        std::chrono::nanoseconds length = first_pause;
        // It lasts until then; when it is over, the next one is longer until then.
        std::chrono::nanoseconds until{};
    };

    [[nodiscard]] std::chrono::nanoseconds share_of(std::chrono::nanoseconds time) const {
        return time * percent_ / 100;
    }
    void choose(const ProcessKey &process, std::chrono::nanoseconds cost,
                std::chrono::nanoseconds share, const std::vector<Use> &dearest_first,
                std::vector<Dear> &dear) const;

    std::int64_t percent_;
    std::chrono::nanoseconds looked_;
    std::map<ProcessKey, std::chrono::nanoseconds> left_;  // of those that have not saved up all
    std::map<FunctionPlace, Pause> pauses_;
};

// Functions that are observed all the time, whatever they cost.
// By the symbol. CUDA's waits, copies, allocations and frees: what hangs, and who holds memory, has
// to be known. NCCL's functions: a rank with fewer operations than others looks as if it were
// behind.
[[nodiscard]] bool is_always_observed(std::string_view symbol);

}  // namespace gpusnoop::probes
