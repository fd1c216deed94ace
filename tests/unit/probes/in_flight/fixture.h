// Calls in flight as probes give them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "exporter/probes/frame/calls/open_calls.h"

namespace gpusnoop::probes {

inline OpenCall call_in_flight(const std::string &function, std::uint32_t tid,
                               std::uint64_t began_ns, std::uint64_t sp = 0x1000) {
    OpenCall call;
    call.comm = "python3";
    call.script = "train.py";
    call.pid = 42;
    call.tid = tid;
    call.thread = "worker";
    call.library = "libcudart.so.12";
    call.function = function;
    call.began_ns = began_ns;
    call.sp = sp;
    return call;
}

inline blocked_thread_record thread_in(std::uint32_t tid, std::uint64_t call_started_ns) {
    blocked_thread_record thread{};
    thread.tgid = 42;
    thread.tid = tid;
    thread.call_started_ns = call_started_ns;
    return thread;
}

}  // namespace gpusnoop::probes
