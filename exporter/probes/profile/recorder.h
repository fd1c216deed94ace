// The profile of the CPU that a running exporter takes all the time, if the configuration says so.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/profile/probe.h"
#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

// For any thread; has one of its own, which looks up functions.
class ProfileRecorder {
public:
    // `traced` is for this alone. If the kernel refuses, health() has the reason, as of a probe
    // that is down.
    static Result<std::unique_ptr<ProfileRecorder>> start(const config::Config &config,
                                                          const TracedProcessesPtr &traced);
    ~ProfileRecorder();
    ProfileRecorder(const ProfileRecorder &) = delete;
    ProfileRecorder &operator=(const ProfileRecorder &) = delete;

    // So much of the past and up to a slice more, if there is so much. The limit is for looking up
    // functions.
    [[nodiscard]] Result<Profile> past(std::chrono::nanoseconds duration,
                                       const ProfileFilter &filter, const WorkLimit &limit);
    [[nodiscard]] Health health() const;

    static constexpr std::chrono::seconds slice{10};
    // The most text of frames that it keeps.
    static constexpr std::size_t max_bytes = std::size_t{32} << 20U;

private:
    ProfileRecorder(const config::Config &config, ProfilerAndProbe made, Fd stopping);
    void run(const std::stop_token &stop);

    const std::chrono::milliseconds interval_;
    const std::chrono::nanoseconds keep_;
    const Fd stopping_;  // readable: stop
    std::mutex mutex_;   // guards the next two, but for health()
    const std::unique_ptr<Probe> probe_;
    Profiler *const profiler_;
    std::jthread thread_;
};

}  // namespace gpusnoop::probes
