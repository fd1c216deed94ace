// The sinks of the configuration, which probes share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/sinks/connection.h"
#include "exporter/sinks/target.h"

namespace gpusnoop::sinks {

// A bounded queue of lines for a sink: any thread pushes, one thread writes.

class LineQueue {
public:
    // `max_bytes` limits the lines that were pushed and are not done(). `wake` is a non-blocking
    // eventfd.
    LineQueue(std::size_t max_bytes, Fd wake) : max_bytes_(max_bytes), wake_(std::move(wake)) {}

    // Adds the line and a newline. False: the queue is full. Never waits for the reader.
    [[nodiscard]] bool push(std::string_view line);

    // All queued lines, without waiting for more. They count as queued until done().
    [[nodiscard]] std::string take();
    void done(std::size_t bytes);

    // Bytes that were pushed and are not done().
    [[nodiscard]] std::size_t bytes() const;

    // Makes wake_fd() readable, as push() does; clear() resets it.
    void wake() const;
    void clear() const;
    [[nodiscard]] int wake_fd() const { return wake_.get(); }

private:
    std::size_t max_bytes_;
    Fd wake_;
    mutable std::mutex mutex_;
    std::string waiting_;
    std::size_t taken_ = 0;
};

// Sends lines to a target from its own thread. Callers that offer lines never wait: lines that do
// not fit into the queue, while the target is slow, missing or full, are counted as lost.

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

// For any thread after start().
class Sinks {
public:
    explicit Sinks(SinkConfigs configs) : configs_(std::move(configs)) {}

    // Starts their threads, with the privileges of the caller. Once, before send().
    Result<> start();

    [[nodiscard]] bool want(Events events) const;
    // Some sink has `entries`.
    [[nodiscard]] bool want_entries() const;

    // Offers a line, without its newline, to the sinks that want it.
    void send(Events events, std::string_view line) const;
    void send_entry(std::string_view line) const;

    // In the order of their configuration. `entries_lost`: calls that began, of which the sinks
    // with `entries` were not told.
    [[nodiscard]] std::vector<Status> status(std::uint64_t entries_lost) const;

private:
    SinkConfigs configs_;
    std::vector<std::unique_ptr<Sink>> sinks_;  // in the order of configs_
};

using SinksPtr = std::shared_ptr<const Sinks>;

}  // namespace gpusnoop::sinks
