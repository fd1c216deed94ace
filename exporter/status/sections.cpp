#include "exporter/status/sections.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/quantity_text.h"
#include "exporter/probes/frame/python/merge.h"
#include "exporter/processes/process_names.h"
#include "exporter/status/html.h"
#include "exporter/status/page.h"
#include "exporter/status/parts.h"

namespace gpusnoop::status {

namespace {

constexpr std::size_t max_function_bytes = 256;

using Rows = std::vector<std::vector<std::string>>;

// Only a probe that failed is a reason to act.
std::string state_html(probes::ProbeState state) {
    const std::string text(to_string(state));
    switch (state) {
        case probes::ProbeState::up:
            return "<b class=\"ok\">" + text + "</b>";
        case probes::ProbeState::failed:
            return "<b class=\"bad\">" + text + "</b>";
        case probes::ProbeState::unsupported:
        case probes::ProbeState::disabled:
            break;
    }
    return text;
}

std::string attached_text(const ProbeFacts &probe) {
    if (probe.functions == 0) {
        return "<span class=\"dim\">nothing</span>";
    }
    std::string text = counted(probe.functions, "function", "functions");
    if (probe.libraries > 0) {
        text += " in " + counted(probe.libraries, "file", "files");
    }
    return "<span class=\"keep\">" + text + "</span>";
}

std::string by_reason(const std::map<std::string, std::uint64_t> &counts) {
    std::string text;
    for (const auto &[reason, count] : counts) {
        text += (text.empty() ? "" : ", ") + escape_html(reason) + " " + count_text(count);
    }
    return text;
}

std::string lost_html(const ProbeFacts &probe) {
    std::uint64_t sum = 0;
    for (const auto &[reason, count] : probe.lost) {
        sum += count;
    }
    return count_html(sum) + (sum == 0 ? "" : "<br><small>" + by_reason(probe.lost) + "</small>");
}

std::string detail_html(const ProbeFacts &probe) {
    std::string html =
        "<span class=\"fit\">" + escape_html(probe.detail, max_path_bytes) + "</span>";
    if (!probe.attach_failures.empty()) {
        html += "<br><small>failed to attach: " + by_reason(probe.attach_failures) + "</small>";
    }
    return html;
}

std::string library_state(const LibraryFacts &library) {
    std::string html;
    for (const auto &[probe, functions] : library.attached) {
        html += (html.empty() ? "" : "<br>") + std::string("<b class=\"ok\">attached</b> by ") +
                escape_html(probe) + ", " + counted(functions, "function", "functions");
        if (const auto found = library.expensive.find(probe); found != library.expensive.end()) {
            html += ", " + count_text(found->second) +
                    " of them <abbr title=\"the kernel cannot emulate their first instructions, so "
                    "a traced call of them costs about ten times as much\">expensive</abbr>";
        }
    }
    for (const auto &[probe, problem] : library.problems) {
        html += (html.empty() ? "" : "<br>") + std::string("<b class=\"bad\">not attached</b>") +
                (probe.empty() ? "" : " by ") + escape_html(probe) + ": " +
                escape_html(problem, max_path_bytes);
    }
    return "<span class=\"fit\">" +
           (html.empty() ? "not attached: it has none of the functions that are traced" : html) +
           "</span>";
}

std::string stack_html(const std::vector<symbols::Frame> &stack) {
    if (stack.empty()) {
        return "<span class=\"dim\">not known</span>";
    }
    std::string html = "<details><summary>" + counted(stack.size(), "call", "calls") +
                       "</summary><ol class=\"code fit\">";
    for (std::size_t i = 0; i < std::min(stack.size(), max_frames); i++) {
        const symbols::Frame &frame = stack[i];
        html +=
            "<li>" +
            escape_html(frame.function.empty() ? "unknown" : frame.function, max_function_bytes) +
            " " + "<small>" + escape_html(frame.module) + "</small></li>";
    }
    html += "</ol>";
    if (stack.size() > max_frames) {
        html += "and " + count_text(stack.size() - max_frames) + " more";
    }
    return html + "</details>";
}

std::vector<std::string> row_of(const probes::SlowCallOverview &call) {
    return {time_html(call.ended),
            call.duration_ns ? duration_html(static_cast<double>(*call.duration_ns) / 1e9) : "-",
            "<code>" + escape_html(call.function, max_function_bytes) + "</code>",
            "<code>" + escape_html(call.library) + "</code>",
            process_html(call.names, call.pid),
            container_html(call.names.container),
            call.error ? "<b class=\"bad\">error</b> " + escape_html(*call.error)
                       : "<span class=\"dim\">none</span>",
            stack_html(call.stack == nullptr ? std::vector<symbols::Frame>() : *call.stack)};
}

// The line of Python that waits, if there is one, and all of the stack.
std::string place_html(const std::vector<symbols::Frame> &stack) {
    const auto line = std::ranges::find_if(stack, probes::is_python);
    return (line == stack.end()
                ? ""
                : "<code>" + escape_html(line->function, max_function_bytes) + "</code>") +
           stack_html(stack);
}

// Red if somebody must act on the node.
std::string kind_html(const std::string &kind) {
    const bool is_bad = kind == "hardware" || kind == "fatal";
    return is_bad ? "<b class=\"bad\">" + escape_html(kind) + "</b>" : escape_html(kind);
}

std::vector<std::string> row_of(const probes::XidOverview &xid) {
    return {
        time_html(xid.at),
        (xid.is_switch ? "SXid " : "Xid ") + std::to_string(xid.code),
        kind_html(xid.kind),
        xid.gpu.empty() ? "<span class=\"dim\">a switch</span>" : escape_html(xid.gpu),
        "<code>" + escape_html(xid.device) + "</code>",
        xid.process ? process_html(*xid.process, xid.pid) : "<span class=\"dim\">not named</span>",
        container_html(xid.process ? xid.process->container : std::string()),
        code(xid.text)};
}

}  // namespace

std::string probes_section(const Facts &facts) {
    std::string html = heading("probes", "Probes");
    if (facts.probes.empty()) {
        return html + sentence("There is no probe.");
    }
    Rows rows;
    for (const ProbeFacts &probe : facts.probes) {
        if (rows.size() == max_probes) {
            break;
        }
        rows.push_back({escape_html(probe.name), state_html(probe.state), attached_text(probe),
                        rate_html(probe.rate.events), count_html(probe.events),
                        rate_html(probe.rate.lost), lost_html(probe), detail_html(probe)});
    }
    html += table_html("probes",
                       {{"Probe"},
                        {"State"},
                        {"Attached to"},
                        {"Events/s", true},
                        {"Events", true},
                        {"Lost/s", true},
                        {"Lost", true},
                        {"How, or why not"}},
                       rows);
    return html + more(facts.probes.size(), rows.size()) +
           "<p class=\"dim\">Per second: over the last " + duration_text(facts.rate_seconds) +
           ". The others: since the start.</p>\n";
}

std::string not_known(const Facts &facts, std::string_view probe) {
    const auto its = std::ranges::find(facts.probes, probe, &ProbeFacts::name);
    const bool is_off = its != facts.probes.end() && its->state == probes::ProbeState::disabled;
    return sentence("Not known: the probe <code>" + std::string(probe) + "</code> is " +
                    (is_off ? "switched off by the configuration." : "not up."));
}

std::string processes_section(const Facts &facts) {
    std::string html = heading("processes", "GPU processes");
    if (!facts.overview.memory) {
        return html + not_known(facts, "cuda");
    }
    const probes::MemoryOverview &memory = *facts.overview.memory;
    if (memory.processes.empty()) {
        return html + sentence("No process that runs has used CUDA yet.");
    }
    html +=
        sentence(counted(memory.process_count, "process holds ", "processes hold ") +
                 (memory.is_complete ? "" : "at least ") + bytes_html(memory.outstanding.bytes) +
                 " in " + counted(memory.outstanding.count, "allocation", "allocations") + ".");
    Rows rows;
    for (const probes::ProcessOverview &process : memory.processes) {
        std::string gpus;
        for (const std::string &gpu : process.gpus) {
            gpus += (gpus.empty() ? "" : ", ") + escape_html(gpu);
        }
        const std::string at_least = process.is_complete ? "" : "&ge; ";
        const std::string limit =
            process.limit.empty()
                ? ""
                : "<br><small>" + escape_html(process.limit, probes::max_limit_bytes) + "</small>";
        const std::string profiles =
            facts.may_profile
                ? "<br><small>profile: " + profile_links_html(process.pid) + "</small>"
                : "";
        rows.push_back({process_html(process.names, process.pid) + limit + profiles,
                        at_least + bytes_html(process.outstanding.bytes),
                        at_least + count_html(process.outstanding.count), gpus,
                        container_html(process.names.container), code(process.exe)});
    }
    html += table_html("processes",
                       {{"Process"},
                        {"Holds", true},
                        {"Allocations", true},
                        {"GPU"},
                        {"Container"},
                        {"Executable"}},
                       rows);
    if (!memory.is_complete) {
        html +=
            "<p class=\"dim\">&ge;: the process ran before the probes were attached, and may hold "
            "memory from before.</p>\n";
    }
    return html + more(memory.process_count, rows.size(),
                       ", which hold less: see <a href=\"./api/v1/allocations?limit=0\">all</a>");
}

std::string profiles_section(const Facts &facts) {
    return facts.may_profile
               ? heading("profiles", "Profiles") +
                     sentence(
                         "A profile looks for 10 seconds at GPU processes, at those that "
                         "<code>targets</code> names, and at what they start, and is a flame graph "
                         "then: " +
                         profile_links_html() + ".")
               : "";
}

std::string allocations_section(const Facts &facts) {
    std::string html = heading("allocations", "Top allocations");
    if (!facts.overview.memory) {
        return html + not_known(facts, "cuda");
    }
    const probes::MemoryOverview &memory = *facts.overview.memory;
    if (memory.sites.empty()) {
        return html + sentence("No process holds memory that it allocated since the start.");
    }
    Rows rows;
    for (const probes::SiteOverview &site : memory.sites) {
        rows.push_back({code(site.site.empty() ? "unknown" : site.site),
                        bytes_html(site.outstanding.bytes), count_html(site.outstanding.count),
                        process_html(site.names, site.pid), container_html(site.names.container)});
    }
    html += table_html(
        "allocations",
        {{"Allocated in"}, {"Holds", true}, {"Allocations", true}, {"Process"}, {"Container"}},
        rows);
    return html + more(memory.site_count, rows.size(),
                       ", which hold less: see <a href=\"./api/v1/allocations\">all</a>");
}

std::string slow_calls_section(const Facts &facts) {
    std::string html = heading("slow-calls", "Slow calls");
    if (!facts.overview.slow_calls) {
        return html + not_known(facts, "functions");
    }
    const probes::SlowCallsOverview &calls = *facts.overview.slow_calls;
    if (calls.last.empty()) {
        return html + sentence("No call has taken as long as its <code>slow_threshold</code>.");
    }
    Rows rows;
    for (const probes::SlowCallOverview &call : calls.last) {
        rows.push_back(row_of(call));
    }
    html += table_html("slow-calls",
                       {{"Ended (UTC)"},
                        {"Took", true},
                        {"Function"},
                        {"Library"},
                        {"Process"},
                        {"Container"},
                        {"Error"},
                        {"Called from"}},
                       rows);
    return html + more(calls.kept, rows.size(),
                       " before them: see <a href=\"./api/v1/slow_calls\">all that are kept</a>");
}

std::string in_flight_section(const Facts &facts) {
    std::string html = heading("in-flight", "Calls in flight");
    if (!facts.overview.in_flight) {
        return html + not_known(facts, "in_flight");
    }
    const probes::InFlightOverview &open = *facts.overview.in_flight;
    const std::string min_age = duration_html(std::chrono::duration<double>(open.min_age).count());
    if (open.oldest.empty()) {
        return html + sentence("No call has been running for " + min_age + " or longer.");
    }
    html +=
        sentence(counted(open.count, "call has been running for ", "calls have been running for ") +
                 min_age + " or longer.");
    auto stacks =
        open.stacks ? open.stacks() : std::map<std::uint32_t, std::vector<symbols::Frame>>();
    Rows rows;
    for (const probes::OpenCall &call : open.oldest) {
        const std::uint64_t age_ns = open.now_ns - std::min(open.now_ns, call.began_ns);
        rows.push_back({"<code>" + escape_html(call.function, max_function_bytes) + "</code>",
                        age_html(static_cast<double>(age_ns) / 1e9),
                        "<code>" + escape_html(call.library) + "</code>",
                        process_html(call, call.pid),
                        escape_html(call.thread) + " <small class=\"keep\">tid " +
                            std::to_string(call.tid) + "</small>",
                        call.gpu.empty() ? "-" : escape_html(call.gpu),
                        container_html(call.container), place_html(stacks[call.tid])});
    }
    html += table_html("in-flight",
                       {{"Function"},
                        {"For", true},
                        {"Library"},
                        {"Process"},
                        {"Thread"},
                        {"GPU"},
                        {"Container"},
                        {"Where"}},
                       rows);
    return html + more(open.count, rows.size(), ", which began later") +
           sentence("<a href=\"./api/v1/in_flight\">Where their threads are now</a>");
}

std::string xids_section(const Facts &facts) {
    std::string html = heading("xids", "Errors that the driver reports");
    if (!facts.overview.xids) {
        return html + not_known(facts, "xid");
    }
    const probes::XidsOverview &xids = *facts.overview.xids;
    if (xids.last.empty()) {
        return html + sentence("The driver has reported no Xid and no SXid since the start.");
    }
    Rows rows;
    for (const probes::XidOverview &xid : xids.last) {
        rows.push_back(row_of(xid));
    }
    html += table_html("xids",
                       {{"Time (UTC)"},
                        {"Code"},
                        {"Class"},
                        {"GPU"},
                        {"Device"},
                        {"Process"},
                        {"Container"},
                        {"Report"}},
                       rows);
    return html + more(xids.count, rows.size(),
                       " before them: see <a href=\"./api/v1/xids\">the last ones</a>");
}

std::string libraries_section(const Facts &facts) {
    std::string html = heading("libraries", "Libraries");
    if (facts.libraries.empty()) {
        return html + sentence("No process uses a library that a probe attaches to.");
    }
    Rows rows;
    for (const LibraryFacts &library : facts.libraries) {
        if (rows.size() == max_libraries) {
            break;
        }
        rows.push_back({code(library.path), count_html(library.processes), library_state(library),
                        library.build.empty() ? "<span class=\"dim\">none</span>"
                                              : "<code>" + escape_html(library.build) + "</code>"});
    }
    html += table_html("libraries", {{"File"}, {"Processes", true}, {"State"}, {"Build id"}}, rows);
    return html + more(facts.libraries.size(), rows.size());
}

}  // namespace gpusnoop::status
