// Keeps what the named functions cost a process below `cuda: {max_overhead: 3%}`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/frame/bpf/overhead.h"
#include "exporter/probes/frame/calls/open_call_reader.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/functions/attach/attached_files.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/count/snapshot.h"
#include "exporter/probes/functions/limit/dear_functions.h"

namespace gpusnoop::probes {

// Decides, detaches and attaches on a thread of its own, as the latter take long. References must
// outlive it.
class FunctionGovernor {
public:
    struct Kernel {
        // Also of calls that have no record, but not of muted functions; 0: the process has ended.
        CostOf cost_of;
        std::function<Result<std::unique_ptr<OpenCallReader>>()> open_reader;
    };
    // `percent` of one CPU.
    FunctionGovernor(std::uint32_t percent, AttachedFiles &files, const FunctionIds &ids,
                     Kernel kernel);
    FunctionGovernor(const FunctionGovernor &) = delete;
    FunctionGovernor &operator=(const FunctionGovernor &) = delete;

    // For the aggregating thread, which never waits for attaching or detaching: whether a second is
    // over, and the calls of that second.
    [[nodiscard]] bool is_due(std::chrono::nanoseconds now);
    void note(const std::vector<CallsOfFunction> &calls);
    // For the same thread. A function has at least one entry of each pause.
    [[nodiscard]] std::vector<UnobservedFunction> take_unobserved();

private:
    // More calls of the time in which the thread waits for the kernel are left out.
    static constexpr std::size_t max_noted = 65'536;
    struct Paused {
        AttachedFiles::Names names;
        std::vector<ProcessKey> processes;  // that it cost too much
        std::chrono::nanoseconds counted_until{};
        bool cannot_resume = false;
    };

    // By process and number.
    using Calls = std::map<std::pair<ProcessKey, std::uint32_t>, std::uint64_t>;

    void run(const std::stop_token &stop);
    [[nodiscard]] std::vector<DearFunctions::Use> uses_of(const Calls &calls);
    [[nodiscard]] std::chrono::nanoseconds cost_of(const ProcessKey &process) const;
    void pause(const std::vector<DearFunctions::Dear> &dear);
    void log_pause(const DearFunctions::Dear &dear, const AttachedFiles::Names &names);
    void resume_what_is_due();
    void resume(const FunctionPlace &function, bool is_over);
    [[nodiscard]] bool has_reason(const Paused &paused) const;
    void count_until(std::chrono::nanoseconds now, Paused &paused);
    void count_unobserved();
    void close_links();

    AttachedFiles &files_;
    const FunctionIds &ids_;
    Kernel kernel_;
    // Opened at the first pause. An error: this kernel cannot list calls in flight.
    std::optional<Result<std::unique_ptr<OpenCallReader>>> in_flight_;
    DearFunctions dear_;
    // At the last look, or pause, of the processes with calls.
    std::map<ProcessKey, std::chrono::nanoseconds> costs_;
    std::map<FunctionPlace, Paused> paused_;
    std::set<FunctionPlace> logged_;
    std::chrono::nanoseconds noted_at_{};
    std::mutex mutex_;  // of the next two
    std::optional<Calls> calls_;
    std::map<AttachedFiles::Names, std::chrono::nanoseconds> unobserved_;
    std::condition_variable_any noted_;
    std::jthread thread_;  // the last: it ends before what it uses
};

}  // namespace gpusnoop::probes
