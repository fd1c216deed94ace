// One finished call, as passed to per-call callbacks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bpf/functions/functions.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/functions/attach/function_ids.h"

namespace gpusnoop::probes {

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

}  // namespace gpusnoop::probes
