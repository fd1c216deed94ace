#include "exporter/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "exporter/base/log.h"
#include "exporter/ebpf/handover.h"
#include "exporter/ebpf/kernel_types.h"
#include "exporter/probes/frame/libraries/start_discovery.h"
#include "exporter/probes/frame/privileges.h"
#include "exporter/probes/frame/processes/target_table.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/profile/probe.h"
#include "exporter/status/rates.h"
#include "exporter/system/foreign_reader.h"
#include "exporter/system/machine.h"

namespace gpusnoop {

namespace {

// After the signal to end: a child process gets the probes that are still attached, and the
// exporter ends.
constexpr std::chrono::milliseconds hand_over_after{1500};
constexpr std::chrono::milliseconds end_after{2000};

Error with_hint(const Error &error) {
    return {error.message + limit_hint(error.code), error.code};
}

}  // namespace

App::~App() {
    // One clock for all that follows: each of these joins threads, which may be waiting for the
    // files and processes of others.
    const ebpf::Handover ending(hand_over_after, end_after);
    ebpf::hand_over_perf_events();
    if (profiles_) {
        profiles_->stop();  // it answers through the server
    }
    // The server comes next, so that no scrape waits for a pipeline that is gone.
    server_.reset();
    {
        const std::lock_guard lock(pipeline_mutex_);
        pipeline_.reset();
    }
    profiles_.reset();
    discovery_.reset();
    calibration_.reset();  // writes to the probes
    probes::end_probes(std::move(probes_));
}

App::App(config::Config config, std::function<Result<config::Config>()> read_config)
    : config_(std::move(config)),
      reloads_({.begin = [this] { begin_reload(); },
                .read = std::move(read_config),
                .apply = [this](const auto &changed) { apply(changed); },
                .end =
                    [this](const auto &read) {
                        manager_.tell("READY=1\n" + status_line() +
                                      (read ? "" : "; the last reload failed"));
                    }}) {}

Result<std::unique_ptr<App>> App::start(config::Config config,
                                        std::function<Result<config::Config>()> read_config) {
    std::unique_ptr<App> app(new App(std::move(config), std::move(read_config)));
    auto access = http::Access::open(app->config_.web.config_file);
    if (!access) {
        return tl::unexpected(access.error());
    }
    if (const auto started = app->start_probes(); !started) {
        return tl::unexpected(with_hint(started.error()));
    }
    if (const auto started = app->start_server(*std::move(access)); !started) {
        return tl::unexpected(with_hint(started.error()));
    }
    app->look_for_libraries();
    app->manager_.tell("READY=1\n" + app->status_line());
    return app;
}

std::vector<probes::Health> App::health() const {
    std::vector<probes::Health> all = probes::health_of(probes_);
    if (profiles_) {
        if (auto recorder = profiles_->recorder_health()) {
            all.push_back(*std::move(recorder));
        }
    }
    return all;
}

std::string App::status_line() const {
    std::size_t up = 0;
    std::size_t enabled = 0;
    std::set<std::string> libraries;
    for (const probes::Health &probe : health()) {
        up += probe.is_up() ? 1 : 0;
        enabled += probe.state == probes::ProbeState::disabled ? 0 : 1;
        for (const probes::AttachedLibrary &library : probe.libraries) {
            libraries.insert(library.name);
        }
    }
    return fmt::format("STATUS={} of {} probes up, attached to {} libraries", up, enabled,
                       libraries.size());
}

std::vector<probes::ProcessSample> App::samples() const {
    std::vector<probes::ProcessSample> all;
    for (const auto &probe : probes_) {
        const auto of_probe = probe->samples(status::Past::most_processes);
        all.insert(all.end(), of_probe.begin(), of_probe.end());
    }
    return all;
}

void App::after_round() {
    status_page_.look_at([this] { return health(); }, [this] { return samples(); });
    if (is_discovery_stuck()) {
        return;  // without notifications, systemd restarts the exporter, if its watchdog is on
    }
    if (manager_.is_watchdog_due()) {
        manager_.tell("WATCHDOG=1\n" + status_line());
    }
}

// Logs each change once.
bool App::is_discovery_stuck() {
    const bool is_stuck = discovery_->progress().is_stuck();
    if (is_stuck != std::exchange(discovery_was_stuck_, is_stuck)) {
        if (is_stuck) {
            log::error("discovery is stuck: new libraries are not found until it responds");
        } else {
            log::info("discovery responds again: new libraries are found");
        }
    }
    return is_stuck;
}

Result<> App::prepare() {
    if (const auto enough = allow_many_files(); !enough) {
        return enough;
    }
    features_ = ebpf::probe_features();
    if (const auto usable = ebpf::check_requirements(features_); !usable) {
        return usable;
    }
    if (!features_.has_harmless_return_probes()) {
        log::warn(
            "return probes of this kernel would kill programs under seccomp: using probes at "
            "function exits instead, where possible",
            {{"reason", features_.find("uretprobe_seccomp")->reason}});
    }
    if (const auto dropped = drop_privileges(config_, features_); !dropped) {
        return dropped;
    }
    return ForeignReader::prepare();
}

Result<> App::start_sinks() {
    sinks_ = std::make_shared<sinks::Sinks>(config_.of<sinks::SinkConfigs>());
    if (auto started = sinks_->start(); !started) {
        return started;
    }
    probes::warn_of_missing_events(config_);
    return {};
}

Result<> App::start_probes() {
    const ebpf::SharedKernelTypes types;
    if (auto prepared = prepare(); !prepared) {
        return prepared;
    }
    if (auto started = start_sinks(); !started) {
        return started;
    }
    const auto traced = probes::make_traced_processes(config_);
    probes_ = probes::make_probes(config_, features_, {.traced = traced, .sinks = sinks_});
    const auto results = probes::start_probes(probes_);
    for (std::size_t i = 0; i < probes_.size(); i++) {
        if (const auto &started = results[i]; !started) {
            const bool has_failed = !is_unsupported(started.error());
            log::write(has_failed ? log::Level::error : log::Level::info,
                       has_failed ? "a probe is down" : "a probe is not supported on this node",
                       {{"probe", probes_[i]->health().name},
                        {"reason", with_hint(started.error()).message}});
        }
    }
    calibration_.emplace(probes::attach_modes_in_use(config_, features_),
                         features_.has_harmless_return_probes(),
                         [this](const ebpf::ProbeCosts &costs) {
                             for (const auto &probe : probes_) {
                                 probe->set_costs(costs);
                             }
                         });
    if (auto opened = open_discovery(); !opened) {
        return opened;
    }
    if (auto opened = open_profiles(traced); !opened) {
        return opened;
    }
    start_pipeline();
    return {};
}

Result<> App::open_discovery() {
    std::vector<discovery::Attacher *> attachers;
    for (const auto &probe : probes_) {
        if (discovery::Attacher *attacher = probe->attacher()) {
            attachers.push_back(attacher);
        }
    }
    auto settings = probes::discovery_settings(config_);
    settings.on_use = [this] {
        const std::lock_guard lock(pipeline_mutex_);
        if (pipeline_) {
            pipeline_->hurry();
        }
    };
    auto discovery = discovery::Discovery::open(std::move(settings), std::move(attachers));
    if (!discovery) {
        return tl::unexpected(discovery.error());
    }
    discovery_ = std::move(*discovery);
    return {};
}

Result<> App::open_profiles(const probes::TracedProcessesPtr &traced) {
    if (!config_.of<probes::ProfileConfig>().enabled) {
        return {};
    }
    auto profiles = probes::ProfileService::make(config_, traced);
    if (!profiles) {
        return tl::unexpected(profiles.error());
    }
    profiles_ = std::move(*profiles);
    return {};
}

void App::start_pipeline() {
    std::vector<probes::Probe *> all;
    for (const auto &probe : probes_) {
        all.push_back(probe.get());
    }
    // Without a process that uses a traced library, and none to follow, there is little to drain.
    const auto &targets = config_.of<probes::TargetsConfig>();
    const bool follows_others = targets.all_processes || probes::names_any(targets);
    probes::Pipeline::Rest rest{.is_now = [this, follows_others] {
        return !follows_others && !discovery_->progress().is_in_use();
    }};
    if (const auto timeout = watchdog_timeout()) {
        rest.longest =
            std::min(rest.longest, std::chrono::floor<std::chrono::milliseconds>(*timeout / 3));
    }
    pipeline_ = std::make_unique<probes::Pipeline>(
        std::move(all), probes::drain_interval(config_), [this] { after_round(); },
        std::move(rest));
}

void App::look_for_libraries() {
    discovery_->start();
    for (const probes::Health &probe : health()) {
        if (probe.is_up() && probe.attached_functions == 0) {
            log::info("no process uses a library of this probe yet: waiting for one",
                      {{"probe", probe.name}});
        }
    }
}

Result<> App::start_server(std::unique_ptr<http::Access> access) {
    // New threads have only the privileges that are left now.
    auto listeners = http::open_listeners(config_.web);
    if (!listeners) {
        return tl::unexpected(listeners.error());
    }
    auto server = http::Server::start(*std::move(listeners), std::move(access), routes());
    if (!server) {
        return tl::unexpected(server.error());
    }
    server_ = std::move(*server);
    return {};
}

}  // namespace gpusnoop
