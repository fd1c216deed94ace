#include "exporter/probes/profile/run.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "exporter/base/log.h"
#include "exporter/ebpf/handover.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::milliseconds;

class ProfileTracer final : public trace::HostTracer {
public:
    ProfileTracer(const trace::Setup &setup, ProfileSettings settings)
        : HostTracer(setup), settings_(std::move(settings)) {}

    void set_limit(const WorkLimit &limit) { profiler_->set_limit(limit); }
    [[nodiscard]] Result<Profile> take() const { return profiler_->take(); }

private:
    [[nodiscard]] bool adds_gpu_processes() const override { return true; }
    [[nodiscard]] config::Config settings() const override {
        config::Config config = setup().config;
        auto time = config.of<HostTimeConfig>();
        time.enabled = true;  // the calls of threads
        time.keep_gaps = 0;
        config.set(time);
        return config;
    }
    std::unique_ptr<Probe> make_probe_of(const TracedProcessesPtr &traced) override {
        auto made = make_profiler(settings(), traced, settings_);
        profiler_ = made.profiler;
        return std::move(made.probe);
    }

    const ProfileSettings settings_;
    Profiler *profiler_ = nullptr;
};

Result<> write(const std::optional<std::string> &text, const std::string &path) {
    if (!text) {
        return fail("no memory for the profile");
    }
    std::FILE *const file = path.empty() ? stdout : std::fopen(path.c_str(), "we");
    if (file == nullptr) {
        return fail_errno(path);
    }
    const bool is_written = std::fwrite(text->data(), 1, text->size(), file) == text->size();
    const bool is_closed = (path.empty() ? std::fflush(file) : std::fclose(file)) == 0;
    return is_written && is_closed ? Result<>()
                                   : fail_errno(path.empty() ? "write the profile" : path);
}

// Until the time is over, or the program is asked to stop.
void sample(ProfileTracer &tracer, milliseconds duration, int stop_fd) {
    const auto end = now_on(CLOCK_MONOTONIC) + duration;
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(end - now_on(CLOCK_MONOTONIC));
        if (left <= milliseconds(0)) {
            return;
        }
        pollfd stop{.fd = stop_fd, .events = POLLIN, .revents = 0};
        if (::poll(&stop, 1, static_cast<int>(std::min(left, tracer.interval()).count())) > 0) {
            return;
        }
        // So that files and processes that do not answer delay the end by no more.
        tracer.set_limit(WorkLimit().at_most(longest_naming));
        tracer.drain(now_on(CLOCK_REALTIME) - now_on(CLOCK_MONOTONIC));
    }
}

}  // namespace

Result<> run_profile(const config::Config &config, const ProfileOptions &options, int stop_fd) {
    if (options.format == ProfileFormat::pprof && options.output.empty() &&
        ::isatty(STDOUT_FILENO) != 0) {
        return fail("pprof is not for a terminal: give a file with --output");
    }
    if (const auto enough = allow_many_files(); !enough) {
        return enough;
    }
    const auto features = ebpf::probe_features();
    if (const auto usable = ebpf::check_requirements(features); !usable) {
        return usable;
    }
    std::optional<ebpf::Handover> handover;  // for the probes that are attached
    trace::Options targets;
    targets.pids = options.settings.filter.pids;
    targets.comm = options.settings.filter.comm;
    trace::Writer unused(targets, stop_fd);
    ProfileTracer tracer({config, features, targets, unused}, options.settings);
    if (options.settings.type == ProfileType::heap) {
        log::warn(
            "each malloc and free of the process takes a few microseconds longer during the "
            "profile",
            {{"pid", options.settings.filter.pids.front()}});
    }
    auto done = tracer.start();
    if (done) {
        sample(tracer, options.duration, stop_fd);
        tracer.set_limit(WorkLimit().at_most(longest_naming));
        const auto profile = tracer.take();
        done = profile ? write(to_format(*profile, options.format), options.output)
                       : tl::unexpected(profile.error());
        if (profile && profile->stacks.empty()) {
            log::warn("the profile is empty: no matching process, or no samples of this type");
        }
        if (profile && (profile->samples_lost > 0 || profile->stacks_lost > 0)) {
            log::warn(
                "the profile is incomplete: its tables were full",
                {{"samples_lost", profile->samples_lost}, {"stacks_lost", profile->stacks_lost}});
        }
    }
    handover.emplace();
    return done;
}

}  // namespace gpusnoop::probes
