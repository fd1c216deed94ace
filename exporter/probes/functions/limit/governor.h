// Keeps what the named functions cost a process below `cuda: {max_overhead: 3%}`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/frame/open_call_reader.h"
#include "exporter/probes/frame/overhead.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/probes/functions/attach/attached_files.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/attach/function_place.h"
#include "exporter/probes/functions/count/unobserved.h"
#include "exporter/probes/functions/limit/dear_functions.h"

namespace gpusnoop::probes {

// Decides, detaches and attaches on a thread of its own, as the latter take long. References must
// outlive it.
class FunctionGovernor {
public:
    struct Kernel {
        CostOf cost_of;  // also of calls that have no record
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
    void note(std::vector<CallsOfFunction> calls);
    // For the same thread. A function has at least one entry of each pause.
    [[nodiscard]] std::vector<UnobservedFunction> take_unobserved();

private:
    struct Paused {
        AttachedFiles::Names names;
        std::chrono::nanoseconds counted_until{};
        bool cannot_resume = false;
    };

    void run(const std::stop_token &stop);
    [[nodiscard]] std::vector<DearFunctions::Use> uses_of(
        const std::vector<CallsOfFunction> &calls);
    [[nodiscard]] std::chrono::nanoseconds cost_of(const ProcessKey &process) const;
    void pause(const std::vector<DearFunctions::Dear> &dear);
    void log_pause(const DearFunctions::Dear &dear, const AttachedFiles::Names &names);
    void resume_what_is_due();
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
    std::optional<std::vector<CallsOfFunction>> calls_;
    std::map<AttachedFiles::Names, std::chrono::nanoseconds> unobserved_;
    std::condition_variable_any noted_;
    std::jthread thread_;  // the last: it ends before what it uses
};

}  // namespace gpusnoop::probes
