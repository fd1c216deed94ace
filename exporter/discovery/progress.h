// How discovery's thread gets on, for those who watch over it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace gpusnoop::discovery {

class Progress {
public:
    using Clock = std::chrono::steady_clock;

    // Of the thread.
    void come_round() { last_round_ = Clock::now().time_since_epoch().count(); }
    void first_look_is_over() { set(is_ready_); }
    void end() { set(has_ended_); }
    // Before the thread starts: nothing will be found.
    void note_problem(std::string problem) { problem_ = std::move(problem); }
    void note_slow_files(std::uint64_t files) { slow_files_ = files; }

    // Of any thread.
    [[nodiscard]] bool is_ready() const { return is_ready_; }
    [[nodiscard]] Clock::duration since_last_round() const {
        return Clock::now().time_since_epoch() - Clock::duration(last_round_.load());
    }
    // It comes round every few milliseconds, and after a look at all processes.
    [[nodiscard]] bool is_stuck() const { return since_last_round() >= std::chrono::seconds(10); }
    // Why nothing is found, empty if something may be.
    [[nodiscard]] const std::string &problem() const { return problem_; }
    // Files that did not answer, and are not attached to for that.
    [[nodiscard]] std::uint64_t slow_files() const { return slow_files_; }

    // Whether it is so before the time is over.
    bool wait_until_ready(std::chrono::milliseconds most) { return wait(is_ready_, most); }
    bool wait_until_ended(std::chrono::milliseconds most) { return wait(has_ended_, most); }

private:
    void set(std::atomic<bool> &flag) {
        const std::lock_guard lock(mutex_);
        flag = true;
        changed_.notify_all();
    }
    bool wait(const std::atomic<bool> &flag, std::chrono::milliseconds most) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, most, [&] { return flag.load(); });
    }

    std::atomic<Clock::rep> last_round_ = Clock::now().time_since_epoch().count();
    std::atomic<std::uint64_t> slow_files_ = 0;
    std::atomic<bool> is_ready_ = false;
    std::atomic<bool> has_ended_ = false;
    std::string problem_;
    std::mutex mutex_;
    std::condition_variable changed_;
};

}  // namespace gpusnoop::discovery
