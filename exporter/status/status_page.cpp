#include "exporter/status/status_page.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/version.h"
#include "exporter/http/request_parts.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/status/assets.h"
#include "exporter/status/parts.h"
#include "exporter/status/sections.h"
#include "exporter/system/machine.h"

namespace gpusnoop::status {

namespace {

// What somebody looks for first comes first.
constexpr std::array sections = {&processes_section, &in_flight_section,     &gpus_section,
                                 &events_section,    &out_of_memory_section, &job_reports_section,
                                 &probes_section,    &allocations_section,   &slow_calls_section,
                                 &profiles_section,  &libraries_section};

// Documents of the API.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> documents = {
    {{"allocations", "allocations"},
     {"allocations?format=folded", "allocations as folded stacks"},
     {"functions", "functions"},
     {"in_flight", "calls in flight"},
     {"out_of_memory", "out of memory"},
     {"slow_calls", "slow calls"},
     {"xids", "reports of the driver"},
     {"exits", "ends of processes"},
     {"threads", "launching threads"},
     {"launch_gaps", "launch gaps"},
     {"connections", "connections"}}};

// Relative to this page, so that it also works behind a proxy that adds a path prefix.
std::string link(std::string_view path, std::string_view title) {
    return "<li><a href=\"." + escape_html(path) + "\">" + std::string(title) + "</a>\n";
}

std::string links(const Facts &facts) {
    std::string html = "<nav aria-label=\"Pages\">\n<ul>\n" +
                       link(facts.telemetry_path, "Metrics") + link("/-/healthy", "Health") +
                       link("/-/ready", "Readiness") + "<li><a href=\"" +
                       std::string(docs_address) + "/web.md#the-page-at-\">Documentation</a>\n";
    if (!facts.is_for_strangers) {
        html += "<li>As JSON:\n";
        for (const auto &[path, title] : documents) {
            html += link("/api/v1/" + std::string(path), title);
        }
    }
    return html + "</ul>\n</nav>\n";
}

std::string fact(std::string_view name, const std::string &html) {
    return "<dt>" + std::string(name) + "</dt><dd>" + html + "</dd>\n";
}

std::string reload_text(const metrics::LastReload &reload) {
    return reload.successful ? "read without errors, " + time_html(reload.at)
                             : "<b class=\"bad\">failed</b>, " + time_html(reload.at) +
                                   "; the one before is in effect";
}

std::string facts_list(const Facts &facts) {
    return "<h2 id=\"exporter\">The exporter</h2>\n<dl>\n" +
           fact("Version", text_html(facts.version) + " (" + text_html(facts.revision) + ")") +
           fact("Up for", span_text(facts.uptime_seconds)) +
           fact("Configuration",
                facts.config_file.empty() ? "the defaults, no file" : code(facts.config_file)) +
           fact("Last read", reload_text(facts.last_reload)) + "</dl>\n";
}

// The script says at "live" how it goes.
std::string refresh_line(const Facts &facts, std::optional<std::uint32_t> refresh_seconds) {
    const std::string how =
        refresh_seconds ? "reloaded every " + counted(*refresh_seconds, "second", "seconds") +
                              ". <a href=\"./\">Stop that</a>"
                        : "<a href=\"./?refresh=10\">reload every 10 seconds</a>";
    return "<p class=\"dim\"><span id=\"as-of\">As of " + time_html(facts.now) +
           "</span>, <span id=\"live\">" + how + "</span></p>\n";
}

// Links of the page tell other servers nothing, and robots do not follow them: some take a profile.
std::string head_html(const Facts &facts, std::optional<std::uint32_t> refresh_seconds) {
    std::string html =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<meta name=\"robots\" content=\"noindex, nofollow\">\n";
    html += refresh_seconds
                ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", *refresh_seconds)
                : fmt::format("<script src=\"{}\" defer=\"\"></script>\n", address_of(script()));
    // A page without its own icon makes browsers request one.
    return html + fmt::format(
                      "<link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"{}\">\n"
                      "<title>{}: GPU processes</title>\n</head>\n",
                      address_of(stylesheet()), text_html(facts.node));
}

}  // namespace

std::string page(const Facts &facts, std::optional<std::uint32_t> refresh_seconds) {
    std::string html = head_html(facts, refresh_seconds) + "<body>\n<header>\n<h1>" +
                       text_html(facts.node) +
                       "</h1>\n<p class=\"dim\">What CUDA programs do here, as "
                       "gpusnoop_exporter sees it</p>\n" +
                       refresh_line(facts, refresh_seconds) + "</header>\n<main>\n" + notes(facts);
    if (facts.is_for_strangers) {
        html +=
            "<p>Only clients on this machine and logins see what programs do. "
            "<code>--web.enable-api</code> shows it to all.</p>\n" +
            probes_section(facts);
    } else {
        for (const auto &section : sections) {
            html += section(facts);
        }
    }
    return html + facts_list(facts) + "</main>\n<footer>\n" + links(facts) +
           "</footer>\n</body>\n</html>\n";
}

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
