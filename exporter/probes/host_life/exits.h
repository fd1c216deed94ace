// The last ends of followed processes, for /api/v1/exits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bpf/host_life.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/host_life/reports/report.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// The value of the label `sender`.
[[nodiscard]] std::string_view sender_name(std::uint32_t sender);
// "SIGKILL"; "SIGRT34" and the like for real-time signals.
[[nodiscard]] std::string signal_name(std::uint32_t signal);
// The value of the label `cause`: an exit code, a signal's name or "oom_kill".
[[nodiscard]] std::string cause_of(const life_exit_record &record);

struct ExitStatus {
    std::optional<std::uint32_t> code;
    std::string signal;  // empty: it has a code
};
[[nodiscard]] ExitStatus exit_status_of(const life_exit_record &record);

inline constexpr std::string_view cause_exec = "exec";
inline constexpr std::string_view cause_oom = "oom_kill";

// The CUDA call that a process made last.
struct LastCall {
    std::string_view function;       // its symbol
    std::chrono::nanoseconds age{};  // from its beginning to the process's end
    bool is_in_flight = false;       // its thread ended inside of it
};
// Nothing: the process made none, or nobody names functions.
[[nodiscard]] std::optional<LastCall> last_call_of(const life_exit_record &record,
                                                   CudaFunctionName function_name);

// A thread of a process whose end was recorded already was later than that. False: of another
// process.
bool add_late_call(life_exit_record &exit, const life_last_call_record &late);

struct ProcessExit {
    std::chrono::nanoseconds at{};  // CLOCK_REALTIME
    life_exit_record record{};
    processes::ProcessNames process;
    std::optional<GpuProcessEnd> held = {};  // once it is counted
};

// For the aggregating thread.
class ExitHistory {
public:
    explicit ExitHistory(std::size_t keep) : keep_(keep) {}

    void add(ProcessExit exit);
    // As add_late_call().
    void add(const life_last_call_record &late);
    // What a process held: before its end is added here, or after.
    void add(const GpuProcessEnd &end);
    // Forgets what was held by processes that ended before, and whose ends have not come.
    void forget_unused(std::chrono::nanoseconds until);
    // The newest of GPU processes, and of others those that nobody asked for.
    [[nodiscard]] EndsOverview overview() const;
    // The newest first.
    [[nodiscard]] std::vector<ProcessExit> list() const { return {exits_.rbegin(), exits_.rend()}; }

private:
    void take_unused(ProcessExit &exit);

    std::size_t keep_;
    std::deque<ProcessExit> exits_;  // the newest last
    std::unordered_map<ProcessKey, GpuProcessEnd, ProcessKeyHash> unused_;
};

// "exits": docs/api.md describes the parameters and the members.
inline constexpr std::string_view exits_page_name = "exits";
[[nodiscard]] ApiPage exits_page(std::vector<ProcessExit> all, std::vector<JobReport> reports,
                                 CudaFunctionName function_name);

}  // namespace gpusnoop::probes
