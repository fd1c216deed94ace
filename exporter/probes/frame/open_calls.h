// Calls that have begun and not returned, as the probes that follow calls know them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bpf/lib/open_call.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// The most calls that never returned which a probe keeps between two takes.
inline constexpr std::size_t max_unreturned_calls = 1'000;

// An operation of NCCL, by the communicators that the process was seen to make.
struct NcclPlace {
    std::uint64_t communicator = 0;  // the process's first is 1
    std::string hash;                // the same on all nodes; empty: not known
    std::optional<std::uint32_t> rank{};
    std::optional<std::uint32_t> nranks{};
    // The communicator's first collective operation is 1. One that is in flight is the last.
    std::uint64_t sequence = 0;
};

// The names are its process's. Texts are valid UTF-8 and not long.
struct OpenCall : processes::ProcessNames {
    std::uint64_t began_ns = 0;  // on the kernel's monotonic clock
    std::uint32_t pid = 0;
    std::uint32_t tid = 0;
    std::string thread;  // its name
    std::string pod_uid;
    // The file's name; else of which kind the library is, as the probe does not know its file.
    std::string library;
    bool is_file_known = true;
    std::string function;
    // By position, without addresses; of a named function, the configured ones.
    std::vector<std::pair<std::uint8_t, std::uint64_t>> arguments;
    std::string gpu;  // as the label; empty: not known
    std::optional<NcclPlace> nccl;
    std::uint64_t sp = 0;          // where its return address lies
    std::uint64_t returns_to = 0;  // 0: not known
};

// What the record says for every probe: the thread, its process and the call's start. Without the
// function.
[[nodiscard]] OpenCall open_call_of(const ProcessIdentity &process, const open_call &record);

// The thread ended inside it.
struct UnreturnedCall : OpenCall {
    std::uint64_t ended_ns = 0;
    std::uint32_t signal = 0;  // that ended it; 0: the thread or its process exited
};

struct OpenCalls {
    std::vector<OpenCall> calls;
    std::vector<blocked_thread_record> threads;  // of the calls, if asked for
};

struct OpenCallQuery {
    std::chrono::nanoseconds min_age{};  // of the calls
    bool with_threads = false;
};

}  // namespace gpusnoop::probes
