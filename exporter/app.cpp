#include "exporter/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/unsupported.h"
#include "exporter/base/version.h"
#include "exporter/ebpf/handover.h"
#include "exporter/ebpf/kernel_types.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/metrics/page.h"
#include "exporter/metrics/process.h"
#include "exporter/metrics/self.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/libraries/start_discovery.h"
#include "exporter/probes/frame/privileges.h"
#include "exporter/probes/frame/processes/target_settings.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/profile/settings.h"
#include "exporter/status/assets.h"
#include "exporter/status/past.h"
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
      read_config_(std::move(read_config)),
      reloads_([this] { return read_and_apply(); }) {}

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
    app->tell_manager("READY=1\n" + app->status_line());
    return app;
}

void App::tell_manager(std::string_view lines) const {
    if (const auto told = manager_.send(lines); !told) {
        log::warn("cannot notify systemd", {{"reason", told.error().message}});
    }
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
    if (heartbeat_.is_due(std::chrono::steady_clock::now())) {
        tell_manager("WATCHDOG=1\n" + status_line());
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

http::Response App::ready_page() const {
    const discovery::Progress &progress = discovery_->progress();
    if (!progress.problem().empty()) {
        return http::text_response(503, "Not ready: " + progress.problem() + ".\n");
    }
    if (progress.is_stuck()) {
        return http::text_response(
            503, "Not ready: discovery is stuck, so new libraries are not found.\n");
    }
    if (!progress.is_ready()) {
        return http::text_response(
            503, "Not ready: the first scan of all processes has not finished.\n");
    }
    return http::text_response(200, "Ready.\n");
}

Result<> App::start_probes() {
    const ebpf::SharedKernelTypes types;
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
    if (const auto prepared = ForeignReader::prepare(); !prepared) {
        return prepared;
    }
    sinks_ = std::make_shared<sinks::Sinks>(config_.of<sinks::SinkConfigs>());
    if (auto started = sinks_->start(); !started) {
        return started;
    }
    if (sinks::want(config_.of<sinks::SinkConfigs>(), sinks::Events::launch_gaps) &&
        !config_.of<probes::HostTimeConfig>().enabled) {
        log::warn("no launch gaps are sent to sinks: they need host.time.enabled");
    }
    const auto traced = probes::make_traced_processes(config_);
    probes_ = probes::make_probes(config_, features_, {.traced = traced, .sinks = sinks_});
    std::vector<probes::Probe *> all;
    std::vector<discovery::Attacher *> attachers;
    const auto results = probes::start_probes(probes_);
    for (std::size_t i = 0; i < probes_.size(); i++) {
        const auto &probe = probes_[i];
        if (const auto &started = results[i]; !started) {
            const bool has_failed = !is_unsupported(started.error());
            log::write(
                has_failed ? log::Level::error : log::Level::info,
                has_failed ? "a probe is down" : "a probe is not supported on this node",
                {{"probe", probe->health().name}, {"reason", with_hint(started.error()).message}});
        }
        all.push_back(probe.get());
        if (discovery::Attacher *attacher = probe->attacher()) {
            attachers.push_back(attacher);
        }
    }
    calibration_.emplace(probes::attach_modes_in_use(config_, features_),
                         features_.has_harmless_return_probes(),
                         [this](const ebpf::ProbeCosts &costs) {
                             for (const auto &probe : probes_) {
                                 probe->set_costs(costs);
                             }
                         });
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
    if (config_.of<probes::ProfileConfig>().enabled) {
        auto profiles = probes::ProfileService::make(config_, traced);
        if (!profiles) {
            return tl::unexpected(profiles.error());
        }
        profiles_ = std::move(*profiles);
    }
    // Without a process that uses a traced library, and none to follow, there is little to drain.
    const auto &targets_of = config_.of<probes::TargetsConfig>();
    const bool follows_others = targets_of.all_processes || probes::names_any(targets_of);
    pipeline_ = std::make_unique<probes::Pipeline>(
        std::move(all), probes::drain_interval(config_), [this] { after_round(); },
        [this, follows_others] { return !follows_others && !discovery_->progress().is_in_use(); });
    return {};
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

// Each handler here occupies a worker of the server: all policies together leave workers free.
std::vector<http::Route> App::routes() {
    const auto format = [](const http::Request &request) {
        return metrics::negotiate(request.accept);
    };
    // Simultaneous requests for a health check share one response: a flood of them must not cause a
    // kubelet's check to be refused.
    const http::Policy shared{.share = [](const auto &) { return std::string(); }};
    std::vector<std::string> api_paths;
    for (const std::string_view name : probes::api_page_names()) {
        api_paths.push_back("/api/v1/" + std::string(name));
    }
    return {
        {.paths = {"/"}, .handler = [this](const auto &request) { return status_page(request); }},
        {.paths = {std::string(status::stylesheet().path), std::string(status::script().path)},
         .handler = [](const auto &request) { return status::StatusPage::asset(request); },
         .policy = {.share = [](const auto &request) { return request.path; }}},
        // A storm of scrapes makes one page of each format.
        {.paths = {config_.web.telemetry_path},
         .handler = [this, format](const auto &request) { return metrics_page(format(request)); },
         .policy = {.share =
                        [format](const auto &request) {
                            return std::string(metrics::content_type(format(request)));
                        }}},
        // A page holds a copy of a probe's data: one at a time.
        {.paths = std::move(api_paths),
         .handler = [this](const auto &request) { return api_page(request); },
         .is_private = !config_.web.has_api},
        // No worker waits for a profile, and one is taken at a time.
        {.paths = {"/api/v1/profile"},
         .begin = [this](const auto &request,
                         const auto &client) { begin_profile(request, client); }},
        // One reload runs. Requests that wait cause one more reading of the file, so that no change
        // is missed.
        {.paths = {"/-/reload"},
         .handler = [this](const auto &) { return reload_page(); },
         .policy = {.max_running = 2, .max_waiting = 1},
         .is_action = true},
        {.paths = {"/-/release"},
         .handler = [this](const auto &request) { return release_page(request); },
         .policy = {.max_waiting = 4},
         .is_action = true},
        {.paths = {"/-/give-back"},
         .handler = [this](const auto &request) { return give_back_page(request); },
         .policy = {.max_waiting = 4},
         .is_action = true},
        {.paths = {"/-/healthy"},
         .handler = [](const auto &) { return http::text_response(200, "Healthy.\n"); },
         .policy = shared,
         .is_open = true},
        {.paths = {"/-/ready"},
         .handler = [this](const auto &) { return ready_page(); },
         .policy = shared,
         .is_open = true}};
}

http::Response App::metrics_page(metrics::Format format) {
    auto text = render(format);
    if (!text) {
        return http::text_response(503, text.error().message + "\n");
    }
    http::Response response;
    response.content_type = metrics::content_type(format);
    response.vary = "Accept";
    response.body = std::make_shared<const std::string>(*std::move(text));
    return response;
}

Result<std::string> App::render(metrics::Format format) {
    const auto snapshot = pipeline_->snapshot();
    if (!snapshot) {
        return tl::unexpected(snapshot.error());
    }
    std::vector<prometheus::MetricFamily> families;
    const auto append = [&](std::vector<prometheus::MetricFamily> more) {
        families.insert(families.end(), std::make_move_iterator(more.begin()),
                        std::make_move_iterator(more.end()));
    };
    const auto healths = health();
    append(metrics::probe_families(healths));
    append(metrics::sink_families(sinks_->status(std::accumulate(
        healths.begin(), healths.end(), std::uint64_t{0},
        [](std::uint64_t sum, const probes::Health &probe) { return sum + probe.entries_lost; }))));
    append(metrics::series_families(snapshot->families, snapshot->folded));
    families.push_back(metrics::log_family(log::lines_lost()));
    const discovery::Progress &progress = discovery_->progress();
    append(metrics::discovery_families(
        {std::chrono::duration<double>(progress.since_last_round()).count(), progress.slow_files(),
         progress.unreadable_processes(), progress.released_processes()}));
    ebpf::Features features = features_;
    if (const auto measured = calibration_->measured()) {
        features.list.push_back(measured->feature);
        families.push_back(metrics::cost_family(measured->costs));
    }
    families.push_back(metrics::feature_family(features));
    append(metrics::reload_families(last_reload_.last()));
    families.push_back(metrics::build_info(ebpf::libbpf_version()));
    append(metrics::process_families(metrics::read_own_process()));
    return metrics::write_page(format, snapshot->families, families);
}

http::Response App::status_page(const http::Request &request) {
    return status_page_.answer(request, {.config = config_,
                                         .probes = probes_,
                                         .health = health(),
                                         .discovery = *discovery_,
                                         .pipeline = *pipeline_,
                                         .last_reload = last_reload_.last(),
                                         .may_profile = may_profile(request)});
}

}  // namespace gpusnoop
