// The result of the last reload of the configuration.
#pragma once

#include <chrono>
#include <mutex>

#include "exporter/base/result.h"
#include "exporter/metrics/self.h"
#include "exporter/system/machine.h"

namespace gpusnoop::metrics {

// For any thread.
class ReloadRecord {
public:
    // The start counts as a successful load.
    ReloadRecord() { note({}); }

    void note(const Result<> &read) {
        const std::lock_guard lock(mutex_);
        last_.successful = read.has_value();
        last_.problem = read ? "" : read.error().message;
        last_.at = now_on(CLOCK_REALTIME);
        if (read) {
            last_.last_success = std::chrono::duration<double>(last_.at).count();
        }
    }

    [[nodiscard]] LastReload last() const {
        const std::lock_guard lock(mutex_);
        return last_;
    }

private:
    mutable std::mutex mutex_;
    LastReload last_;
};

}  // namespace gpusnoop::metrics
