// Remembers where the threads of hanging calls are: once a thread has ended inside of a call, it is
// too late to look.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/in_flight/stacks.h"

namespace gpusnoop::probes {

// For any thread.
class InFlightWatch {
public:
    using Stacks = std::function<std::map<std::uint32_t, BlockedThread>(const OpenCalls &)>;

    // A call that is younger is not looked at unless somebody asks.
    static constexpr std::chrono::seconds least_age{5};
    // In one round, as each costs a walk over its stack.
    static constexpr std::size_t max_looks = 16;
    // The others are not remembered.
    static constexpr std::size_t max_known = 1024;

    explicit InFlightWatch(Stacks stacks);

    // What `stacks` says, which takes up to seconds.
    [[nodiscard]] std::map<std::uint32_t, BlockedThread> of(const OpenCalls &open);

    // Forgets the calls that are not among these, the second time. True: there are old ones that
    // look_at() would look at.
    [[nodiscard]] bool keep_only(const std::vector<OpenCall> &calls, std::uint64_t now_ns);
    // Has a thread of its own look at some of the old calls, the oldest first, once each. `open` is
    // sorted by age and has their threads. Does not wait.
    void look_at(const OpenCalls &open, std::uint64_t now_ns);

    // In one line, as stack_line() has it. Empty: not known.
    [[nodiscard]] std::string stack_of(const OpenCall &call) const;
    // As BlockedThread::site. Empty: not known.
    [[nodiscard]] std::string site_of(const OpenCall &call) const;

private:
    using Key = std::pair<std::uint32_t, std::uint64_t>;  // thread, start
    struct Known {
        std::string stack;
        std::string site;
        bool was_missing = false;
    };

    [[nodiscard]] bool is_due(const OpenCall &call, std::uint64_t now_ns) const;
    void run(const std::stop_token &stop);

    const Stacks stacks_;
    mutable std::mutex mutex_;
    std::condition_variable_any work_;
    std::map<Key, Known> known_;
    std::optional<OpenCalls> asked_;  // for the thread
    std::jthread thread_;             // the last: it ends before the members that it uses
};

}  // namespace gpusnoop::probes
