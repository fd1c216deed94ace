// The slow calls of named functions: a list of the last ones, a line in the log for each, and the
// events for sinks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/functions/functions.h"
#include "exporter/base/rate_limit.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

// One finished call, as passed to per-call callbacks.
// Valid during the callback.
struct FunctionCall {
    const ProcessIdentity *process;
    const std::shared_ptr<const FunctionInfo> *function;
    const func_call_record *record;
    const func_arguments_record *arguments;  // null if they were not sent
    const func_slow_record *slow;            // null if its details were not recorded
    const std::string *error;                // its name; null for a call that did not fail
    bool is_slow;
};

// When its duration began, on the kernel's monotonic clock.
[[nodiscard]] inline std::uint64_t began_ns(const func_call_record &record) {
    return record.head.ended_ns - record.duration_ns;
}

using OnFuncCall = std::function<void(const FunctionCall &)>;

// The data of a slow call, or of any call in a trace. Texts are valid UTF-8 and not long.
// The names are the process's.
struct SlowCall : processes::ProcessNames {
    std::chrono::nanoseconds ended{};  // CLOCK_REALTIME
    // False: it was followed at its entry only, and `ended` is the time of the entry.
    bool has_ended = true;
    bool is_entry = false;       // it has just begun; its end comes later
    std::uint64_t began_ns = 0;  // on the kernel's monotonic clock
    std::shared_ptr<const FunctionInfo> function;
    std::uint64_t duration_ns = 0;
    std::uint32_t pid = 0;
    std::uint32_t tid = 0;
    std::uint32_t ppid = 0;  // when the process made its first traced call; 0: not known
    std::string thread;      // its name; empty if it is not known
    std::string pod_uid;
    // The configured ones, by position; empty if they are not known.
    std::vector<std::pair<std::uint8_t, std::uint64_t>> arguments;
    // As shown_result(); in a trace as whole_result().
    std::optional<std::uint64_t> result;
    std::optional<std::string> error;
    // Its callers, innermost first; null while they are not known.
    std::shared_ptr<const std::vector<symbols::Frame>> stack;
};

// For the aggregating thread, except the counts.
class SlowCallHistory {
public:
    struct Settings {
        std::size_t keep = 100;
        std::uint32_t log_per_second = 10;
        // Called for each call when its stack is resolved.
        std::function<void(const SlowCall &)> on_complete{};
    };
    // Asks for the functions of a stack. Each request is answered once.
    using Ask = std::function<void(symbols::StackRequest)>;

    // The most stacks that are looked up at one time. Stacks over the limit are lost.
    static constexpr std::size_t max_pending = 256;

    SlowCallHistory(Settings settings, Ask ask);

    // `ended` is the call's end on CLOCK_REALTIME, `now` the time of the kernel's monotonic clock.
    void on_call(const FunctionCall &call, std::chrono::nanoseconds ended,
                 std::chrono::nanoseconds now);
    void on_stacks(std::vector<symbols::StackReply> answers, std::chrono::nanoseconds now);
    // Logs how many lines were not logged. For once a second.
    void tidy(std::chrono::nanoseconds now);

    // The last ones, the newest first.
    [[nodiscard]] std::vector<SlowCall> list() const;

    // For any thread: stacks that were not looked up, and calls that are not in the log.
    [[nodiscard]] std::uint64_t stacks_lost() const { return stacks_lost_; }
    [[nodiscard]] std::uint64_t not_logged() const { return not_logged_; }

private:
    // A process and the addresses of a stack in it.
    using StackKey = std::pair<ProcessKey, std::vector<std::uint64_t>>;
    struct Pending {
        std::vector<std::shared_ptr<SlowCall>> calls;
        StackKey key;
    };

    void find_stack(const std::shared_ptr<SlowCall> &one, const FunctionCall &call,
                    std::chrono::nanoseconds now);
    void complete(const SlowCall &one, std::chrono::nanoseconds now);

    Settings settings_;
    Ask ask_;
    std::deque<std::shared_ptr<SlowCall>> calls_;  // the newest last
    std::uint64_t next_ticket_ = 1;
    std::map<std::uint64_t, Pending> pending_;  // by ticket
    std::map<StackKey, std::uint64_t> asked_;   // ticket
    std::map<StackKey, std::shared_ptr<const std::vector<symbols::Frame>>> known_;
    RateLimit log_limit_;
    std::atomic<std::uint64_t> stacks_lost_ = 0;
    std::atomic<std::uint64_t> not_logged_ = 0;
};

// The data of `call` without the functions on its stack. `ended` is on CLOCK_REALTIME.
[[nodiscard]] SlowCall describe(const FunctionCall &call, std::chrono::nanoseconds ended);

// The result register; nothing if the call's own result was not seen.
[[nodiscard]] std::optional<std::uint64_t> whole_result(const FunctionCall &call);

// The same without possible addresses of the process, as everyone who can read the page, the log or
// a sink sees it: only for functions whose results are codes, and only the bits of a code. For a
// function that returns a pointer, only the null pointer that is its error.
[[nodiscard]] std::optional<std::uint64_t> shown_result(const FunctionCall &call);

// The configured arguments, by position; empty if they were not sent.
[[nodiscard]] std::vector<std::pair<std::uint8_t, std::uint64_t>> arguments_of(
    const FunctionCall &call);

// The return addresses of a slow call, innermost first, without the kernel's own.
[[nodiscard]] std::vector<std::uint64_t> stack_of(const func_slow_record &record);

// The events at a call's entry and at its end.
[[nodiscard]] std::string call_id(const SlowCall &call);

// One object on one line. `event` is the value of its first member; empty: it has none. docs/api.md
// describes the members.
[[nodiscard]] std::string to_json(const SlowCall &call, const std::string &event = "");

// The same for any call, with fewer members: {"event":"call",...}, or {"event":"entry",...} when it
// has just begun. `ended` is on CLOCK_REALTIME.
[[nodiscard]] std::string to_json(const FunctionCall &call, std::chrono::nanoseconds ended);

inline constexpr std::string_view slow_calls_page_name = "slow_calls";

// "slow_calls": `all`, the newest first. docs/api.md describes the parameters and the members.
[[nodiscard]] ApiPage slow_calls_page(std::vector<SlowCall> all);

}  // namespace gpusnoop::probes
