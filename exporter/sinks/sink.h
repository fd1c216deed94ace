// Sends lines to a target from its own thread. Callers that offer lines never wait: lines that do
// not fit into the queue, while the target is slow, missing or full, are counted as lost.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/sinks/connection.h"
#include "exporter/sinks/line_queue.h"
#include "exporter/sinks/target.h"

namespace gpusnoop::sinks {

// The state of a sink. Each offered line is sent, lost, or still waiting.
struct Status {
    std::string name;
    std::uint64_t sent = 0;                     // written to the kernel
    std::map<std::string, std::uint64_t> lost;  // by reason
};

class Sink {
public:
    struct Settings {
        std::string name;
        Target target;
        std::size_t queue_bytes = 4U << 20U;
        // The pause between attempts to open the target, or to write to a full disk; doubled each
        // time.
        std::chrono::milliseconds first_pause{100};
        std::chrono::milliseconds longest_pause{5'000};
    };

    static Result<std::unique_ptr<Sink>> start(Settings settings);
    // Gives waiting lines a second to be sent. The others are lost, and the log says how many.
    ~Sink();
    Sink(const Sink &) = delete;
    Sink &operator=(const Sink &) = delete;

    // A line without its newline, for any thread.
    void offer(std::string_view line);

    [[nodiscard]] Status status() const;

private:
    using Clock = std::chrono::steady_clock;

    Sink(Settings settings, Fd wake, Fd to_stop);
    void run(const std::stop_token &stop);
    bool connect();
    void send();
    void disconnect(const Error &why);
    void pause(const Error &why);
    void rewind();
    void wait(Clock::time_point until, bool for_receiver) const;

    Settings settings_;
    Fd stop_;  // an eventfd
    LineQueue queue_;
    struct Counts {  // of lines
        std::atomic<std::uint64_t> sent = 0;
        std::atomic<std::uint64_t> full = 0;
        std::atomic<std::uint64_t> stopped = 0;
    };
    Counts counts_;

    // For the thread only.
    std::optional<Connection> connection_;
    struct Batch {
        std::string text;
        std::size_t sent = 0;     // bytes
        std::size_t counted = 0;  // bytes, to the end of the last whole line that was sent
    };
    Batch batch_;
    struct LastFile {
        dev_t device = 0;
        ino_t inode = 0;
    };
    LastFile file_;
    struct Backoff {
        std::chrono::milliseconds pause{0};
        Clock::time_point until{};
        std::optional<Clock::time_point> logged;
    };
    Backoff backoff_;
    LineLimit lines_;
    std::optional<Clock::time_point> end_;  // set when the sink is to stop

    std::jthread thread_;  // the last member: it ends before the members that it uses
};

}  // namespace gpusnoop::sinks
