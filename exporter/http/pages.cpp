#include "exporter/http/pages.h"

#include <algorithm>

#include "exporter/base/text.h"

namespace gpusnoop::http {

namespace {

// More copies of a library than this are counted, not listed.
constexpr std::size_t kMaxLibraries = 50;

constexpr std::string_view kStyle = R"(body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;
max-width:70em;padding:0 1em;color:#222;background:#fff}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.4em .8em;border-bottom:1px solid #ddd}
td.n{text-align:right}.up{color:#176b2c}.down{color:#a3161a;font-weight:bold}
code,td.l{font-family:ui-monospace,monospace;font-size:13px;overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}a{color:#8ab4f8}
th,td{border-color:#444}.up{color:#6fcf85}.down{color:#ff8a80}})";

std::string link(std::string_view path, std::string_view what) {
    const std::string escaped = escape_html(path);
    return "<li><a href=\"" + escaped + "\">" + escaped + "</a> " + escape_html(what) + "</li>\n";
}

std::string libraries_cell(const std::vector<std::string> &libraries) {
    std::string cell;
    const std::size_t shown = std::min(libraries.size(), kMaxLibraries);
    for (std::size_t i = 0; i < shown; ++i) {
        cell += (i == 0 ? "" : "<br>") + escape_html(libraries[i]);
    }
    if (shown < libraries.size()) {
        cell += "<br>and " + std::to_string(libraries.size() - shown) + " more";
    }
    return cell;
}

std::string row(const ProbeStatus &probe) {
    return "<tr><td>" + escape_html(probe.name) + "</td><td class=\"" +
           (probe.up ? "up\">up" : "down\">down") + "</td><td class=\"n\">" +
           std::to_string(probe.attached_functions) + "</td><td>" + escape_html(probe.detail) +
           "</td><td class=\"l\">" + libraries_cell(probe.libraries) + "</td></tr>\n";
}

}  // namespace

std::string escape_html(std::string_view text, std::size_t max_bytes) {
    std::string out;
    for (const char c : to_valid_utf8(text, max_bytes)) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

std::string landing_page(const LandingPage &page) {
    std::string html =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n"
        "<title>gpusnoop_exporter</title>\n<style>";
    html += kStyle;
    html += "</style>\n</head>\n<body>\n<h1>gpusnoop_exporter</h1>\n";
    html += "<p>What CUDA programs do on this node, for Prometheus. Version " +
            escape_html(page.version) + ", revision " + escape_html(page.revision) +
            ".</p>\n<ul>\n";
    html += link(page.telemetry_path, "the metrics");
    html +=
        link("/api/v1/allocations", "the memory that running programs hold, by call site, as JSON");
    html += link("/api/v1/allocations?format=folded", "the same for a flame graph");
    html += link("/api/v1/functions", "the calls of each traced function, as JSON");
    html += link("/api/v1/slow_calls", "the last slow ones of them, with arguments and stack");
    html += link("/-/healthy", "whether the exporter runs");
    html += link("/-/ready", "whether it has attached what it could");
    html += "</ul>\n<h2>Probes</h2>\n";
    if (page.probes.empty()) {
        html += "<p>No probe is enabled.</p>\n";
    } else {
        html +=
            "<table>\n<thead><tr><th>Probe</th><th>State</th><th>Functions</th><th>Detail</th>"
            "<th>Attached to</th></tr></thead>\n<tbody>\n";
        for (const ProbeStatus &probe : page.probes) {
            html += row(probe);
        }
        html += "</tbody>\n</table>\n";
    }
    return html + "</body>\n</html>\n";
}

}  // namespace gpusnoop::http
