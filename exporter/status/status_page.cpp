#include "exporter/status/status_page.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "exporter/base/version.h"
#include "exporter/http/query.h"
#include "exporter/probes/frame/api/api_page.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/status/assets.h"
#include "exporter/status/facts.h"
#include "exporter/status/page.h"
#include "exporter/system/machine.h"

namespace gpusnoop::status {

namespace {

constexpr std::uint32_t max_refresh_seconds = 3600;

std::string node_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this node";
}

void add_past(Facts &facts, const Past &past, std::chrono::nanoseconds now) {
    if (!facts.overview.memory) {
        return;
    }
    for (const probes::ProcessOverview &process : facts.overview.memory->processes) {
        facts.past.push_back(past.of({.key = {process.pid, process.since_ns},
                                      .bytes = process.outstanding.bytes,
                                      .launches = process.calls.launches},
                                     now));
    }
}

Facts gather(const Sources &sources, const Rates &rates, const Past &past,
             std::chrono::nanoseconds started, bool is_for_strangers) {
    const auto &health = sources.health;
    const auto now = now_on(CLOCK_MONOTONIC);
    const CurrentRates current = rates.current(now, health);
    std::map<const discovery::Attacher *, std::string> names;
    for (const auto &probe : sources.probes) {
        names[probe->attacher()] = probe->health().name;
    }
    Facts facts{.node = node_name(),
                .version = std::string(version()),
                .revision = std::string(revision()),
                .now = now_on(CLOCK_REALTIME),
                .uptime_seconds = std::chrono::duration<double>(now - started).count(),
                .config_file = sources.config.file,
                .last_reload = sources.last_reload,
                .telemetry_path = sources.config.web.telemetry_path,
                .may_profile = sources.may_profile,
                .rate_seconds = std::chrono::duration<double>(current.window).count(),
                .probes = probe_facts(health, current),
                .libraries = library_facts(sources.discovery.libraries(), health, names),
                .overview = {},
                .past = {},
                .overview_problem = {},
                .is_for_strangers = is_for_strangers};
    if (is_for_strangers) {
        return facts;
    }
    if (auto overview = sources.pipeline.overview(std::chrono::seconds(1))) {
        facts.overview = *std::move(overview);
        add_past(facts, past, now);
    } else {
        facts.overview_problem = overview.error().message;
    }
    return facts;
}

// Ignores other parameters, such as a proxy's.
Result<std::optional<std::uint32_t>> refresh_of(const http::Request &request) {
    const auto parameters = http::parse_query(request.query);
    if (!parameters) {
        return tl::unexpected(parameters.error());
    }
    const auto refresh = parameters->find("refresh");
    if (refresh == parameters->end()) {
        return std::nullopt;
    }
    const auto seconds = probes::read_parameter("refresh", refresh->second, 1);
    if (!seconds) {
        return tl::unexpected(seconds.error());
    }
    return std::min(*seconds, max_refresh_seconds);
}

}  // namespace

StatusPage::StatusPage() : started_(now_on(CLOCK_MONOTONIC)) {}

void StatusPage::look_at(const std::function<std::vector<probes::Health>()> &health,
                         const std::function<std::vector<probes::ProcessSample>()> &processes) {
    const auto now = now_on(CLOCK_MONOTONIC);
    if (rates_.is_due(now)) {
        rates_.add(now, health());
    }
    if (past_.is_due(now)) {
        past_.add(now, processes());
    }
}

http::Response StatusPage::asset(const http::Request &request) {
    const Asset &asset = request.path == stylesheet().path ? stylesheet() : script();
    http::Response response = http::text_response(200, asset.text);
    response.content_type = asset.content_type;
    // Its address on the page has its version.
    response.cache_control = "private, max-age=31536000, immutable";
    return response;
}

http::Response StatusPage::answer(const http::Request &request, const Sources &sources) {
    const auto refresh_seconds = refresh_of(request);
    if (!refresh_seconds) {
        return http::text_response(400, refresh_seconds.error().message + "\n");
    }
    const bool is_for_strangers = !sources.config.web.has_api && !request.is_trusted;
    http::Response response;
    response.content_type = "text/html; charset=utf-8";
    response.more_head = "Content-Security-Policy: " + std::string(page_security_policy) + "\r\n";
    response.body = std::make_shared<const std::string>(
        page(gather(sources, rates_, past_, started_, is_for_strangers), *refresh_seconds));
    return response;
}

}  // namespace gpusnoop::status
