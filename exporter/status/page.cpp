#include "exporter/status/page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "exporter/base/quantity_text.h"
#include "exporter/status/html.h"
#include "exporter/status/sections.h"
#include "exporter/status/style.h"

namespace gpusnoop::status {

namespace {

constexpr std::string_view docs = "https://github.com/gpusnoop/gpusnoop_exporter/tree/main/docs";

// Relative to this page, so that it also works behind a proxy that adds a path prefix.
std::string link(std::string_view path, std::string_view title) {
    return "<li><a href=\"." + escape_html(path) + "\">" + std::string(title) + "</a></li>\n";
}

std::string links(const Facts &facts) {
    return "<nav aria-label=\"Pages\">\n<ul>\n" + link(facts.telemetry_path, "Metrics") +
           link("/api/v1/allocations", "Allocations (JSON)") +
           link("/api/v1/allocations?format=folded", "Allocations (folded stacks)") +
           link("/api/v1/functions", "Functions (JSON)") +
           link("/api/v1/in_flight", "Calls in flight (JSON)") +
           link("/api/v1/out_of_memory", "Out of memory (JSON)") +
           link("/api/v1/slow_calls", "Slow calls (JSON)") + link("/api/v1/xids", "Xids (JSON)") +
           link("/api/v1/exits", "Ends of processes (JSON)") +
           link("/api/v1/threads", "Launching threads (JSON)") +
           link("/api/v1/launch_gaps", "Launch gaps (JSON)") +
           link("/api/v1/connections", "Connections (JSON)") + link("/-/healthy", "Health") +
           link("/-/ready", "Readiness") + "<li><a rel=\"noreferrer\" href=\"" + std::string(docs) +
           "\">Documentation</a></li>\n</ul>\n</nav>\n";
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
    return "<dl>\n" +
           fact("Version", escape_html(facts.version) + " (" + escape_html(facts.revision) + ")") +
           fact("Up for", span_text(facts.uptime_seconds)) +
           fact("Configuration",
                facts.config_file.empty()
                    ? "the defaults, no file"
                    : "<code>" + escape_html(facts.config_file, 4096) + "</code>") +
           fact("Last read", reload_text(facts.last_reload)) + "</dl>\n";
}

std::string refresh_line(const Facts &facts, std::optional<std::uint32_t> refresh_seconds) {
    std::string html = "<p class=\"dim\">As of " + time_html(facts.now) + " UTC. ";
    if (refresh_seconds) {
        return html + "Reloaded every " + counted(*refresh_seconds, "second", "seconds") +
               ". <a href=\"./\">Stop that</a></p>\n";
    }
    return html + "<a href=\"./?refresh=10\">Reload every 10 seconds</a></p>\n";
}

}  // namespace

std::string page(const Facts &facts, std::optional<std::uint32_t> refresh_seconds) {
    std::string html =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    if (refresh_seconds) {
        html += fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", *refresh_seconds);
    }
    // A page without its own icon makes browsers request one.
    html += "<link rel=\"icon\" href=\"data:,\">\n<title>gpusnoop_exporter on " +
            escape_html(facts.node) + "</title>\n<style>";
    html += style;
    html +=
        "</style>\n</head>\n<body>\n<header>\n<h1>gpusnoop_exporter</h1>\n"
        "<p class=\"dim\">What the CUDA programs on <b>" +
        escape_html(facts.node) + "</b> do</p>\n" + links(facts) + "</header>\n<main>\n";
    html += notes(facts) + facts_list(facts) + refresh_line(facts, refresh_seconds);
    if (facts.is_for_strangers) {
        html +=
            "<p>What programs do is shown to clients on this machine, and to logins: "
            "<code>--web.enable-api</code> shows it to all.</p>\n" +
            probes_section(facts);
    } else {
        html += in_flight_section(facts) + probes_section(facts) + processes_section(facts) +
                profiles_section(facts) + allocations_section(facts) +
                out_of_memory_section(facts) + slow_calls_section(facts) + xids_section(facts) +
                libraries_section(facts);
    }
    return html + "</main>\n</body>\n</html>\n";
}

}  // namespace gpusnoop::status
