// What is wrong with the node's programs and GPUs, and with the exporter, at the top of the page at
// /.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/text/quantity_text.h"
#include "exporter/status/parts.h"
#include "exporter/status/sections.h"

namespace gpusnoop::status {

namespace {

using probes::ProbeState;

constexpr std::size_t max_noted = 3;  // of each kind

std::string note(std::string_view kind, std::string_view word, const std::string &html) {
    return fmt::format("<li class=\"{0}\"><b class=\"{0}\">{1}:</b> {2}\n", kind, word, html);
}

std::string problem(const std::string &html) {
    return note("bad", "Problem", html);
}

std::string remark(const std::string &html) {
    return note("note", "Note", html);
}

std::string names_of(const std::vector<std::string> &names) {
    std::string text;
    for (const std::string &name : names) {
        text += (text.empty() ? "" : ", ") + text_html(name);
    }
    return text;
}

std::size_t in_state(const Facts &facts, ProbeState state) {
    return static_cast<std::size_t>(std::ranges::count(facts.probes, state, &ProbeFacts::state));
}

std::string about_probes(const Facts &facts) {
    std::vector<std::string> failed;
    for (const ProbeFacts &probe : facts.probes) {
        if (probe.state == ProbeState::failed) {
            failed.push_back(probe.name);
        }
    }
    const std::size_t enabled = facts.probes.size() - in_state(facts, ProbeState::disabled);
    if (enabled == 0) {
        return problem("No probe is enabled.");
    }
    const std::string of = " of " + counted(enabled, "probe", "probes");
    if (in_state(facts, ProbeState::up) == 0) {
        return problem("No probe is up" + of + ".");
    }
    return failed.empty() ? ""
                          : problem(std::to_string(failed.size()) + of +
                                    (failed.size() == 1 ? " has" : " have") +
                                    " failed: " + names_of(failed) + " (reason below).");
}

std::string about_losses(const Facts &facts) {
    std::string now;
    std::uint64_t before = 0;
    for (const ProbeFacts &probe : facts.probes) {
        if (probe.rate.lost > 0) {
            now += (now.empty() ? "" : ", ") + text_html(probe.name) + " " +
                   rate_html(probe.rate.lost);
        }
        for (const auto &[reason, count] : probe.lost) {
            before += count;
        }
    }
    if (!now.empty()) {
        return problem("Events are being lost, per second: " + now + ". Their counts are too low.");
    }
    return before == 0 ? ""
                       : remark(counted(before, "event was", "events were") +
                                " lost since the start, none lately.");
}

// The exporter is not too slow here, so the remedies for that do not help.
std::string about_depth(const Facts &facts) {
    std::string text;
    for (const ProbeFacts &probe : facts.probes) {
        const auto deep = probe.lost.find("too_deep");
        if (probe.name == "functions" && deep != probe.lost.end() && deep->second > 0) {
            text += remark(counted(deep->second, "call", "calls") +
                           " of named functions were not counted (<code>too_deep</code>): their "
                           "threads were already in 64 traced calls, as many as the kernel keeps "
                           "return probes for. Trace the function that starts the recursion, or "
                           "set for the recursive one <code>entry_only: true</code>.");
        }
    }
    return text;
}

std::string about_configuration(const metrics::LastReload &reload) {
    return reload.successful ? ""
                             : problem("The configuration was rejected: <code>" +
                                       text_html(reload.problem, max_reason_bytes) + "</code>");
}

std::string about_libraries(const std::vector<LibraryFacts> &libraries) {
    const auto count = std::ranges::count_if(
        libraries, [](const LibraryFacts &library) { return !library.problems.empty(); });
    return count == 0
               ? ""
               : problem(counted(static_cast<std::uint64_t>(count), "file", "files") +
                         " that processes use could not be attached to: see Libraries, below.");
}

std::string about_hangs(const Facts &facts) {
    if (!facts.overview.memory) {
        return "";
    }
    std::string text;
    std::size_t count = 0;
    for (const probes::ProcessOverview &process : facts.overview.memory->processes) {
        if (process.verdict == "hangs" && ++count <= max_noted) {
            text += note("bad", "Hangs",
                         short_process_html(process.names, process.pid) + ". " +
                             text_html(process.limit, probes::max_limit_bytes));
        }
    }
    return text + (count <= max_noted
                       ? ""
                       : note("bad", "Hangs",
                              counted(count - max_noted, "process more", "processes more")));
}

// That are a reason to act on the node: its GPUs work no more as they should until somebody does.
std::string about_driver(const Facts &facts) {
    constexpr std::chrono::hours lately{24};
    if (!facts.overview.xids) {
        return "";
    }
    const auto is_bad = [&](const probes::XidOverview &xid) {
        return (xid.kind == "hardware" || xid.kind == "fatal") && facts.now - xid.at <= lately;
    };
    const auto &last = facts.overview.xids->last;
    const auto newest = std::ranges::find_if(last, is_bad);
    if (newest == last.end()) {
        return "";
    }
    return note("bad", "Hardware error",
                (newest->is_switch ? "SXid " : "Xid ") + std::to_string(newest->code) + " of " +
                    (newest->gpu.empty() ? "" : "GPU " + text_html(newest->gpu) + ", ") +
                    text_html(newest->device) + ", at " + time_html(newest->at) +
                    ": see <a href=\"#events\">Last events</a>.");
}

// Problems of the exporter itself.
std::string own_notes(const Facts &facts) {
    std::string list;
    if (!facts.overview_problem.empty()) {
        list += problem("Processes, allocations and slow calls are not shown: " +
                        text_html(facts.overview_problem, max_reason_bytes) + ".");
    }
    list += about_configuration(facts.last_reload) + about_losses(facts) + about_depth(facts) +
            about_probes(facts) + about_libraries(facts.libraries);
    return list;
}

}  // namespace

std::string notes(const Facts &facts) {
    const std::string list =
        (facts.is_for_strangers ? "" : about_hangs(facts) + about_driver(facts)) + own_notes(facts);
    return list.empty() ? "" : "<ul class=\"notes\">\n" + list + "</ul>\n";
}

std::string good_news(const Facts &facts) {
    if (!own_notes(facts).empty()) {
        return "";
    }
    return std::string("<b class=\"ok\">") +
           (in_state(facts, ProbeState::unsupported) == 0
                ? "All enabled probes are up"
                : "All enabled probes that this node supports are up") +
           ", and no event was lost.</b>";
}

}  // namespace gpusnoop::status
