// Reads the configuration again, for SIGHUP and for POST /-/reload.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/base/single_flight.h"
#include "exporter/config/config.h"
#include "exporter/metrics/self.h"

namespace gpusnoop {

// For any thread.
class Reloads {
public:
    // All are called on the thread that reads, one after the other.
    struct Use {
        std::function<void()> begin;
        std::function<Result<config::Config>()> read;
        std::function<void(const config::Config &)> apply;  // not for an invalid configuration
        std::function<void(const Result<> &)> end;
    };
    // The start counts as a successful load.
    explicit Reloads(Use use) : use_(std::move(use)), runs_([this] { return read_and_apply(); }) {
        note({});
    }

    // Reads and applies once for all who ask at the same time. Logs the result.
    Result<> run() { return runs_.run(); }

    [[nodiscard]] metrics::LastReload last() const {
        const std::lock_guard lock(mutex_);
        return last_;
    }

private:
    Result<> read_and_apply();
    void note(const Result<> &read);

    const Use use_;
    mutable std::mutex mutex_;
    metrics::LastReload last_;
    SingleFlight runs_;
};

}  // namespace gpusnoop
