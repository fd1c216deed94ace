// What has happened last, for the page at /: reports of the driver, programs that ran out of
// memory, and ends of processes. Their words link to the runbooks of the alerts that fire on them.
// And what ended jobs have used.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/text/quantity_text.h"
#include "exporter/status/parts.h"
#include "exporter/status/sections.h"

namespace gpusnoop::status {

// The section of the page at / on programs that were refused GPU memory.

namespace {

constexpr std::size_t max_sentence_bytes = 400;

}  // namespace

std::string out_of_memory_section(const Facts &facts) {
    std::string html = heading(out_of_memory_list);
    if (!facts.overview.out_of_memory) {
        return html + not_known(facts, "cuda");
    }
    const probes::OutOfMemoryOverview &events = *facts.overview.out_of_memory;
    if (events.last.empty()) {
        return html + sentence("No program has run out of GPU memory since the start.");
    }
    List list(out_of_memory_list);
    for (const probes::OutOfMemoryEventOverview &event : events.last) {
        if (!list.add({time_html(event.at), count_text(event.count),
                       event.requested ? bytes_text(*event.requested) : "-", text_html(event.gpu),
                       process_html(event.names, event.pid), code(event.verdict),
                       text_html(event.sentence, max_sentence_bytes)})) {
            break;
        }
    }
    return html +
           list.html(events.count,
                     " before them: see <a href=\"./api/v1/out_of_memory\">the last ones</a>");
}

namespace {

constexpr std::size_t max_report_bytes = 440;

// The worst first.
enum class Rank : std::uint8_t { node_is_broken, bad, normal };

struct Event {
    std::chrono::nanoseconds at{};
    Rank rank = Rank::normal;
    std::string what, gpu, process, details;  // HTML
};
using Events = std::vector<Event>;

std::string bad(const std::string &html) {
    return "<b class=\"bad\">" + html + "</b>";
}

Rank rank_of(const probes::XidOverview &xid) {
    return xid.kind == "hardware" || xid.kind == "fatal" ? Rank::node_is_broken
           : xid.kind == "information"                   ? Rank::normal
                                                         : Rank::bad;
}

std::string_view alert_of(const probes::XidOverview &xid) {
    if (xid.is_switch) {
        return xid.kind == "fatal" ? "GpusnoopSxidFatal" : "";
    }
    return xid.kind == "hardware"      ? "GpusnoopXidHardware"
           : xid.kind == "application" ? "GpusnoopXidApplication"
                                       : "GpusnoopXidInformation";
}

void add(const probes::XidOverview &xid, Events &events) {
    const std::string_view alert = alert_of(xid);
    const Rank rank = rank_of(xid);
    const std::string kind = text_html(xid.kind);
    const std::string code_html = (xid.is_switch ? "SXid " : "Xid ") + std::to_string(xid.code);
    events.push_back(
        {.at = xid.at,
         .rank = rank,
         .what = (alert.empty() ? code_html : runbook_html(alert, code_html)) + ", " +
                 (rank == Rank::node_is_broken ? bad(kind) : kind),
         .gpu = (xid.gpu.empty() ? dim("a switch") : text_html(xid.gpu)) + "<br>" +
                dim(text_html(xid.device)),
         .process = xid.process ? process_html(*xid.process, xid.pid) : dim("not named"),
         .details = code(xid.text)});
}

std::string end_html(const probes::EndOverview &end) {
    const std::string cause = text_html(end.cause);
    if (end.cause.find_first_not_of("0123456789") == std::string::npos) {
        return end.is_bad ? bad("exited with code " + cause) : "exited with code " + cause;
    }
    if (!end.is_bad) {
        return "ended by " + cause;
    }
    return runbook_html(
        "GpusnoopGpuProcessKilled",
        bad(end.cause == "oom_kill" ? "killed because host memory ran out" : "killed by " + cause));
}

void add(const probes::EndOverview &end, Events &events) {
    events.push_back({.at = end.at,
                      .rank = end.is_bad ? Rank::bad : Rank::normal,
                      .what = end_html(end),
                      .gpu = {},
                      .process = process_html(end.names, end.pid),
                      .details = end.held_bytes
                                     ? "It held " + bytes_text(*end.held_bytes) + " on GPUs."
                                     : dim("what it held is not known")});
}

void add(const probes::OutOfMemoryEventOverview &event, Events &events) {
    events.push_back(
        {.at = event.at,
         .rank = Rank::bad,
         .what = runbook_html("GpusnoopCudaOutOfMemory", bad("out of GPU memory")),
         .gpu = text_html(event.gpu),
         .process = process_html(event.names, event.pid),
         .details = counted(event.count, "call was", "calls were") + " refused" +
                    (event.requested ? ", the last one " + bytes_text(*event.requested) : "") +
                    ". <a href=\"#out-of-memory\">Who holds the memory</a>"});
}

// All that the overview has.
Events events_of(const Facts &facts) {
    const probes::Overview &overview = facts.overview;
    Events events;
    if (overview.xids) {
        for (const probes::XidOverview &xid : overview.xids->last) {
            add(xid, events);
        }
    }
    if (overview.ends) {
        for (const probes::EndOverview &end : overview.ends->last) {
            add(end, events);
        }
    }
    if (overview.out_of_memory) {
        for (const probes::OutOfMemoryEventOverview &event : overview.out_of_memory->last) {
            add(event, events);
        }
    }
    return events;
}

// Those that are shown, the newest first: ends that were asked for displace no others.
Events shown_of(Events events) {
    std::ranges::stable_sort(events, std::ranges::greater(), &Event::at);
    std::ranges::stable_sort(events, std::ranges::less(), &Event::rank);
    events.resize(std::min(events.size(), events_list.max_rows));
    std::ranges::stable_sort(events, std::ranges::greater(), &Event::at);
    return events;
}

std::string ago_html(std::chrono::nanoseconds at, std::chrono::nanoseconds now) {
    return "<p>" + span_text(std::chrono::duration<double>(std::max(now, at) - at).count()) +
           " ago</p>";
}

// What the list cannot have.
std::string about_events(const Facts &facts) {
    const probes::Overview &overview = facts.overview;
    std::string html;
    if (!overview.xids) {
        html += not_known(facts, "xid");
    } else if (overview.xids->last.empty()) {
        html += sentence("The driver has reported no Xid and no SXid since the start.");
    }
    if (!overview.ends) {
        html += not_known(facts, "host_life");
    } else if (overview.ends->last.empty()) {
        html += sentence("No GPU process has ended since the start.");
    }
    return html;
}

}  // namespace

std::string events_section(const Facts &facts) {
    const probes::Overview &overview = facts.overview;
    Events events = events_of(facts);
    std::size_t all = events.size();
    List list(events_list);
    for (const Event &event : shown_of(std::move(events))) {
        if (!list.add({time_html(event.at) + ago_html(event.at, facts.now), event.what, event.gpu,
                       event.process, event.details})) {
            break;
        }
    }
    if (overview.xids) {
        all += overview.xids->count - overview.xids->last.size();
    }
    if (overview.out_of_memory) {
        all += overview.out_of_memory->count - overview.out_of_memory->last.size();
    }
    if (overview.ends) {
        all += overview.ends->count - overview.ends->last.size();
    }
    return heading(events_list) +
           list.html(all,
                     ": see <a href=\"./api/v1/xids\">reports of the driver</a>, "
                     "<a href=\"./api/v1/out_of_memory\">refusals of memory</a> and "
                     "<a href=\"./api/v1/exits\">ends</a>") +
           about_events(facts);
}

std::string job_reports_section(const Facts &facts) {
    std::string html = heading(job_reports_list);
    if (!facts.overview.job_reports) {
        return html + not_known(facts, "host_life");
    }
    const probes::JobReportsOverview &reports = *facts.overview.job_reports;
    if (reports.last.empty()) {
        return html + sentence("No job has ended since the start.");
    }
    List list(job_reports_list);
    for (const probes::JobReportOverview &report : reports.last) {
        if (!list.add({time_html(report.ended), text_html(report.sentence, max_report_bytes)})) {
            break;
        }
    }
    return html + list.html(reports.count, ": see <a href=\"./api/v1/exits\">the reports</a>");
}

}  // namespace gpusnoop::status
