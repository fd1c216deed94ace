#include "exporter/probes/profile/recorder.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <utility>

#include "exporter/base/log.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

Result<std::unique_ptr<ProfileRecorder>> ProfileRecorder::start(const config::Config &config,
                                                                const TracedProcessesPtr &traced) {
    Fd stopping(::eventfd(0, EFD_CLOEXEC));
    if (!stopping) {
        return fail_errno("eventfd");
    }
    const auto &profile = config.of<ProfileConfig>();
    ProfileSettings settings;
    settings.frequency = profile.continuous_frequency;
    settings.max_stacks = profile.max_stacks;
    settings.max_bytes = max_bytes;
    auto made = make_profiler(config, traced, std::move(settings));
    if (const auto started = made.probe->start(); !started) {
        log::warn("the continuous profile is down: past profiles are unavailable",
                  {{"reason", started.error().message}});
    }
    return std::unique_ptr<ProfileRecorder>(
        new ProfileRecorder(config, std::move(made), std::move(stopping)));
}

ProfileRecorder::ProfileRecorder(const config::Config &config, ProfilerAndProbe made, Fd stopping)
    : interval_(drain_interval(config)),
      keep_(config.of<ProfileConfig>().keep),
      stopping_(std::move(stopping)),
      probe_(std::move(made.probe)),
      profiler_(made.profiler) {
    if (probe_->health().is_up()) {
        thread_ = std::jthread([this](const std::stop_token &stop) { run(stop); });
    }
}

ProfileRecorder::~ProfileRecorder() {
    ::eventfd_write(stopping_.get(), 1);
}

Health ProfileRecorder::health() const {
    Health health = probe_->health();
    health.can_count = {.entries = true,
                        .in_flight = true,
                        .lost = lost_for({LOST_process_table, LOST_table_full})};
    return health;
}

void ProfileRecorder::run(const std::stop_token &stop) {
    pollfd stopped{.fd = stopping_.get(), .events = POLLIN, .revents = 0};
    nanoseconds slice_ends = now_on(CLOCK_MONOTONIC) + slice;
    while (::poll(&stopped, 1, static_cast<int>(interval_.count())) <= 0) {
        const std::lock_guard lock(mutex_);
        profiler_->set_limit({.stop = stop});
        probe_->drain();
        if (now_on(CLOCK_MONOTONIC) >= slice_ends) {
            profiler_->end_slice(keep_);
            slice_ends += slice;
        }
    }
}

Result<Profile> ProfileRecorder::past(nanoseconds duration, const ProfileFilter &filter,
                                      const WorkLimit &limit) {
    if (const Health now = health(); !now.is_up()) {
        return fail("the continuous profile is down: " + now.detail);
    }
    const std::lock_guard lock(mutex_);
    profiler_->set_limit(limit);
    const auto followed = profiler_->check(filter);
    return followed ? profiler_->past(duration, filter) : tl::unexpected(followed.error());
}

}  // namespace gpusnoop::probes
