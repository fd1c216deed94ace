#include "exporter/status/page.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/text/quantity_text.h"
#include "exporter/status/assets.h"
#include "exporter/status/lists.h"
#include "exporter/status/parts.h"
#include "exporter/status/sections.h"

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

}  // namespace gpusnoop::status
