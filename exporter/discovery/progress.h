// The progress of discovery's thread, for the code that watches it.
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

    // For the thread itself.
    void come_round() { last_round_ = Clock::now().time_since_epoch().count(); }
    void first_look_is_over() { set(is_ready_); }
    // Before the thread starts: discovery cannot work.
    void note_problem(std::string problem) { problem_ = std::move(problem); }
    void note_slow_files(std::uint64_t files) { slow_files_ = files; }
    void note_unreadable_processes(std::uint64_t processes) { unreadable_processes_ = processes; }
    void note_released_processes(std::uint64_t processes) { released_processes_ = processes; }
    void note_use(bool is_in_use) { is_in_use_ = is_in_use; }

    // For any thread.
    // Whether a process maps a file that an attacher wants; also for a while after the last one.
    [[nodiscard]] bool is_in_use() const { return is_in_use_; }
    [[nodiscard]] bool is_ready() const { return is_ready_; }
    [[nodiscard]] Clock::duration since_last_round() const {
        return Clock::now().time_since_epoch() - Clock::duration(last_round_.load());
    }
    // A round ends every second at least, or after a scan of all processes.
    [[nodiscard]] bool is_stuck() const { return since_last_round() >= std::chrono::seconds(10); }
    // Why discovery cannot work; empty if it may.
    [[nodiscard]] const std::string &problem() const { return problem_; }
    // Files that are not attached to because they did not answer.
    [[nodiscard]] std::uint64_t slow_files() const { return slow_files_; }
    // Processes whose mappings could not be read, as they keep them locked.
    [[nodiscard]] std::uint64_t unreadable_processes() const { return unreadable_processes_; }
    // Processes whose files have no probes while their memory is saved.
    [[nodiscard]] std::uint64_t released_processes() const { return released_processes_; }

    // False: the time is over.
    bool wait_until_ready(std::chrono::milliseconds most) { return wait(is_ready_, most); }

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
    std::atomic<std::uint64_t> unreadable_processes_ = 0;
    std::atomic<std::uint64_t> released_processes_ = 0;
    std::atomic<bool> is_ready_ = false;
    std::atomic<bool> is_in_use_ = true;  // until it is known
    std::string problem_;
    std::mutex mutex_;
    std::condition_variable changed_;
};

}  // namespace gpusnoop::discovery
