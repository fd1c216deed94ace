#include "exporter/probes/profile/service.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <string>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/probes/frame/host_settings.h"
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

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Loading its programs, about.
constexpr std::chrono::seconds start_takes{2};
// The continuous profile may be looking up names meanwhile.
constexpr std::chrono::seconds recorder_takes{8};

std::string content_type_of(ProfileFormat format) {
    switch (format) {
        case ProfileFormat::json:
            return "application/json";
        case ProfileFormat::pprof:
            return "application/octet-stream";
        case ProfileFormat::svg:
            return "image/svg+xml";
        case ProfileFormat::folded:
            break;
    }
    return "text/plain; charset=utf-8";
}

// Waits for one drain. False: the client has gone away, or the exporter ends.
bool wait(int client, int stopping, milliseconds time) {
    std::array<pollfd, 2> fds = {{{.fd = stopping, .events = POLLIN, .revents = 0},
                                  {.fd = client, .events = POLLRDHUP, .revents = 0}}};
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(time.count()));
    return ready == 0 || (ready < 0 && errno == EINTR);
}

}  // namespace

Result<std::unique_ptr<ProfileService>> ProfileService::make(const config::Config &config,
                                                             TracedProcessesPtr exporters) {
    Fd stopping(::eventfd(0, EFD_CLOEXEC));
    if (!stopping) {
        return fail_errno("eventfd");
    }
    std::unique_ptr<ProfileService> service(
        new ProfileService(config, std::move(exporters), std::move(stopping)));
    if (config.of<ProfileConfig>().continuous_frequency > 0) {
        const auto traced = service->make_traced();
        if (!traced) {
            return tl::unexpected(traced.error());
        }
        auto recorder = ProfileRecorder::start(config, *traced);
        if (!recorder) {
            return tl::unexpected(recorder.error());
        }
        service->recorder_ = std::move(*recorder);
    }
    return service;
}

Result<> ProfileService::begin(ProfileQuery query, Client client) {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) {
        return fail("the exporter is stopping", ESHUTDOWN);
    }
    if (is_busy_) {
        const auto left = std::chrono::ceil<std::chrono::seconds>(ends_ - Clock::now());
        return fail("another profile is being taken, for at most " +
                        std::to_string(std::max<std::int64_t>(left.count(), 1)) + " s more",
                    EBUSY);
    }
    ends_ = Clock::now() + longest_naming +
            (query.is_of_past ? recorder_takes : query.duration + start_takes);
    thread_ = std::jthread([this, query = std::move(query), client = std::move(client)](
                               const std::stop_token &stop) { run(query, client, stop); });
    is_busy_ = true;
    return {};
}

void ProfileService::stop() {
    std::jthread ending;
    {
        const std::lock_guard lock(mutex_);
        is_stopped_ = true;
        ending = std::move(thread_);
    }
    ending.request_stop();
    ::eventfd_write(stopping_.get(), 1);
}

void ProfileService::end_by(Clock::time_point latest) {
    const std::lock_guard lock(mutex_);
    ends_ = latest;
}

Result<TracedProcessesPtr> ProfileService::make_traced() const {
    auto traced = std::make_shared<TracedProcesses>(
        config_.of<TargetsConfig>(), config_.discovery.rescan_interval,
        Following{.enabled = true,
                  .descendants = config_.of<HostConfig>().descendants,
                  .except = 0,
                  .looks_for_gpu_processes = true});
    if (!exporters_->cuda().gpu_processes.processes) {
        return traced->targets().names_any()
                   ? Result<TracedProcessesPtr>(std::move(traced))
                   : fail(
                         "no process is followed: the probe cuda is not up, and `targets` names "
                         "none");
    }
    const auto shared = exporters_->cuda().share_calls_with(traced->cuda());
    return shared ? Result<TracedProcessesPtr>(std::move(traced)) : tl::unexpected(shared.error());
}

// ECANCELED: nobody waits for it any more.
Result<Profile> ProfileService::take(const ProfileQuery &query, int client,
                                     const std::stop_token &stop) {
    if (query.is_of_past) {
        return recorder_->past(query.duration, query.settings.filter,
                               WorkLimit{.stop = stop}.at_most(longest_naming));
    }
    const auto traced = make_traced();
    if (!traced) {
        return tl::unexpected(traced.error());
    }
    ProfileSettings settings = query.settings;
    settings.max_stacks = config_.of<ProfileConfig>().max_stacks;
    settings.max_bytes = max_bytes;
    const auto [probe, profiler] = make_profiler(config_, *traced, settings);
    profiler->set_limit({stop, Clock::now() + query.duration + longest_naming});
    if (auto started = probe->start(); !started) {
        return tl::unexpected(started.error());
    }
    const auto latest = Clock::now() + query.duration + longest_naming;
    profiler->set_limit({stop, latest});
    end_by(latest);
    if (auto followed = profiler->check(query.settings.filter); !followed) {
        return tl::unexpected(followed.error());
    }
    log::info("the profile begins", {{"type", name_of(query.settings.type)}});
    const milliseconds interval = drain_interval(config_);
    const auto end = now_on(CLOCK_MONOTONIC) + query.duration;
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(end - now_on(CLOCK_MONOTONIC));
        if (left <= milliseconds(0)) {
            return profiler->take();
        }
        if (!wait(client, stopping_.get(), std::min(left, interval))) {
            return fail("the client disconnected", ECANCELED);
        }
        probe->drain();
    }
}

void ProfileService::run(const ProfileQuery &query, const Client &client,
                         const std::stop_token &stop) {
    try {
        answer(query, client, stop);
    } catch (const std::exception &) {  // out of memory: the client is disconnected
        const std::lock_guard lock(mutex_);
        is_busy_ = false;
    }
}

void ProfileService::answer(const ProfileQuery &query, const Client &client,
                            const std::stop_token &stop) {
    log::info(query.is_of_past ? "a client requests a past profile" : "a client requests a profile",
              {{"type", name_of(query.settings.type)},
               {"seconds", std::chrono::duration<double>(query.duration).count()}});
    Result<ApiResponse> response = fail("no memory for the profile", ENOMEM);
    try {
        auto profile = take(query, client.socket, stop);
        log::info("the profile ended", {{"result", profile ? "taken" : profile.error().message}});
        if (!profile) {
            response = tl::unexpected(profile.error());
        } else {
            if (auto text = to_format(*profile, query.format)) {
                response = ApiResponse{content_type_of(query.format), *std::move(text)};
            }
        }
    } catch (const std::exception &error) {
        response = fail(error.what());
    }
    {
        const std::lock_guard lock(mutex_);
        is_busy_ = false;
    }
    if (response || response.error().code != ECANCELED) {
        client.answer(std::move(response));
    }
}

}  // namespace gpusnoop::probes
