// Runs a piece of work once for all callers that ask for it at the same time.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "exporter/base/result.h"

namespace gpusnoop {

// Runs the work once at a time. Callers that come while it runs share one more run, which begins
// after the last of them has called.
class SingleFlight {
public:
    explicit SingleFlight(std::function<Result<>()> work) : work_(std::move(work)) {}

    // For any thread. Waits for a run that began after this call, and returns its result. An
    // exception from the work becomes a failure.
    Result<> run() {
        std::shared_ptr<Run> run;
        bool mine = false;
        {
            const std::lock_guard lock(next_mutex_);
            mine = next_ == nullptr;
            if (mine) {
                next_ = std::make_shared<Run>();
            }
            run = next_;
        }
        if (!mine) {
            return run->result.get();
        }
        const std::lock_guard running(running_mutex_);
        {
            const std::lock_guard lock(next_mutex_);
            next_.reset();
        }
        Result<> result;
        try {
            result = work_();
        } catch (const std::exception &error) {
            result = fail(error.what());
        }
        run->promise.set_value(result);
        return result;
    }

private:
    struct Run {
        std::promise<Result<>> promise;
        std::shared_future<Result<>> result = promise.get_future().share();
    };

    std::function<Result<>()> work_;
    std::mutex running_mutex_;
    std::mutex next_mutex_;
    std::shared_ptr<Run> next_;  // starts after the current run
};

}  // namespace gpusnoop
