// Work that is always done by one and the same thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

namespace gpusnoop {

// What a thread has freed stays with it for the next time (glibc keeps up to a quarter of a MiB for
// each), so what many threads would do in turns is better done by one.
class Worker {
public:
    Worker() : thread_([this](const std::stop_token &stop) { work(stop); }) {}

    // Waits until the worker has run the task, and returns or throws what that does. Tasks run in
    // their order. For any thread but the worker.
    template <typename Task>
    std::invoke_result_t<Task> run(Task task) {
        // Shared: the worker is not quite done with it when the result is there.
        const auto packaged =
            std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
        auto result = packaged->get_future();
        {
            const std::lock_guard lock(mutex_);
            tasks_.emplace_back([packaged] { (*packaged)(); });
        }
        changed_.notify_one();
        return result.get();
    }

private:
    void work(const std::stop_token &stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [this] { return !tasks_.empty(); })) {
            const auto task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<std::function<void()>> tasks_;
    std::jthread thread_;  // the last: it ends before what it uses
};

}  // namespace gpusnoop
