// The pages that the server has, and those that need no query: metrics, health, and the page at /.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/app.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/http/request_parts.h"
#include "exporter/metrics/page.h"
#include "exporter/metrics/process.h"
#include "exporter/metrics/self.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/profile/probe.h"
#include "exporter/status/assets.h"
#include "exporter/status/status_page.h"
#include "exporter/system/machine.h"

namespace gpusnoop {

// The pages of the API. The counting thread makes all but profiles.

namespace {

http::Response response_of(probes::ApiResponse page) {
    http::Response response;
    response.content_type = std::move(page.content_type);
    response.body = std::make_shared<const std::string>(std::move(page.text));
    return response;
}

http::Response profile_response(Result<probes::ApiResponse> profile, probes::ProfileFormat format) {
    if (!profile) {
        return http::text_response(profile.error().code == ESRCH ? 404 : 503,
                                   "There is no profile: " + profile.error().message +
                                       limit_hint(profile.error().code) + ".\n");
    }
    http::Response response = response_of(*std::move(profile));
    response.is_compressed = format == probes::ProfileFormat::pprof;
    if (format == probes::ProfileFormat::svg) {
        response.more_head =
            "Content-Security-Policy: " + std::string(status::content_security_policy) + "\r\n";
    }
    return response;
}

}  // namespace

http::Response App::api_page(const http::Request &request) {
    const auto parameters = http::parse_query(request.query);
    if (!parameters) {
        return http::text_response(400, parameters.error().message + "\n");
    }
    const std::string_view name =
        std::string_view(request.path).substr(request.path.rfind('/') + 1);
    // Other requests wait for this one, so it must not wait long.
    const auto pages = pipeline_->api_pages(name, std::chrono::seconds(1));
    if (!pages) {
        return http::text_response(503, pages.error().message + "\n");
    }
    const auto page = std::ranges::find(*pages, name, &probes::ApiPage::name);
    if (page == pages->end()) {
        return http::text_response(503, "The probe of this page is not up: / says why.\n");
    }
    auto written = page->write(*parameters);
    if (!written) {
        return http::text_response(400, written.error().message + "\n");
    }
    return response_of(*std::move(written));
}

bool App::may_profile(const http::Request &request) const {
    return profiles_ && (request.is_trusted || config_.web.has_api);
}

void App::begin_profile(const http::Request &request, const http::Pending &client) {
    if (!profiles_) {
        return client.answer(http::text_response(
            404, "This exporter takes no profiles: profile.enabled is false.\n"));
    }
    if (!may_profile(request)) {
        return client.answer(http::private_response());
    }
    const auto parameters = http::parse_query(request.query);
    auto query = parameters
                     ? probes::read_profile_query(*parameters, config_.of<probes::ProfileConfig>())
                     : tl::unexpected(parameters.error());
    if (!query) {
        return client.answer(http::text_response(400, query.error().message + "\n"));
    }
    const auto format = query->format;
    const auto answer = client.answer;
    const auto begun = profiles_->begin(
        *std::move(query),
        {.socket = client.client, .answer = [answer, format](Result<probes::ApiResponse> profile) {
             answer(profile_response(std::move(profile), format));
         }});
    if (!begun) {
        answer(http::text_response(begun.error().code == EBUSY ? 409 : 503,
                                   "There is no profile: " + begun.error().message + ".\n"));
    }
}

namespace {

std::uint64_t entries_lost(std::span<const probes::Health> probes) {
    std::uint64_t lost = 0;
    for (const probes::Health &probe : probes) {
        lost += probe.lost_details ? probe.lost_details->entries : 0;
    }
    return lost;
}

}  // namespace

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
    append(metrics::sink_families(sinks_->status(entries_lost(healths))));
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
    append(metrics::reload_families(reloads_.last()));
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
                                         .last_reload = reloads_.last(),
                                         .may_profile = may_profile(request)});
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

}  // namespace gpusnoop
