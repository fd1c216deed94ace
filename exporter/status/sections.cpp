// What the page at / has of the exporter, and of call sites and slow calls.
#include "exporter/status/sections.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "exporter/base/text/quantity_text.h"
#include "exporter/status/parts.h"

namespace gpusnoop::status {

namespace {

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
        return dim("nothing");
    }
    return counted(probe.functions, "function", "functions") +
           (probe.libraries == 0 ? "" : " in " + counted(probe.libraries, "file", "files"));
}

std::string lost_html(const ProbeFacts &probe) {
    std::uint64_t sum = 0;
    for (const auto &[reason, count] : probe.lost) {
        sum += count;
    }
    return count_text(sum) + (sum == 0 ? "" : "<p>" + by_name(probe.lost) + "</p>");
}

std::string detail_html(const ProbeFacts &probe) {
    return text_html(probe.detail, max_reason_bytes) +
           (probe.attach_failures.empty()
                ? ""
                : "<p>failed to attach: " + by_name(probe.attach_failures) + "</p>");
}

// Failed ones first, then those that lose events.
std::vector<const ProbeFacts *> worst_first(const std::vector<ProbeFacts> &all) {
    std::vector<const ProbeFacts *> probes;
    for (const ProbeFacts &probe : all) {
        if (probe.state != probes::ProbeState::disabled) {
            probes.push_back(&probe);
        }
    }
    std::ranges::stable_sort(probes, std::ranges::greater(), [](const ProbeFacts *probe) {
        return std::pair(probe->state == probes::ProbeState::failed, probe->rate.lost > 0);
    });
    return probes;
}

std::string disabled_html(const std::vector<ProbeFacts> &all) {
    std::string names;
    for (const ProbeFacts &probe : all) {
        if (probe.state == probes::ProbeState::disabled) {
            names += (names.empty() ? "" : ", ") + text_html(probe.name);
        }
    }
    return names.empty() ? "" : sentence("Disabled by the configuration: " + names + ".");
}

std::string library_state(const LibraryFacts &library) {
    std::string html;
    for (const auto &[probe, problem] : library.problems) {
        html += (html.empty() ? "" : "<br>") + std::string("<b class=\"bad\">not attached</b>") +
                (probe.empty() ? "" : " by ") + text_html(probe) + ": " +
                text_html(problem, max_reason_bytes);
    }
    for (const auto &[probe, functions] : library.attached) {
        html += (html.empty() ? "" : "<br>") + std::string("<b class=\"ok\">attached</b> by ") +
                text_html(probe) + ", " + counted(functions, "function", "functions");
        if (const auto found = library.expensive.find(probe); found != library.expensive.end()) {
            html += ", " + count_text(found->second) + " of them expensive";
        }
    }
    return html.empty() ? "not attached: it has none of the functions that are traced" : html;
}

// "Expensive" is explained only where the word stands.
std::string about_expensive(const std::vector<LibraryFacts> &libraries) {
    const bool has_some = std::ranges::any_of(
        libraries, [](const LibraryFacts &library) { return !library.expensive.empty(); });
    return has_some ? sentence(dim(
                          "Expensive: the kernel cannot emulate the function's first instruction, "
                          "so a traced call of it costs about ten times as much."))
                    : "";
}

std::vector<std::string> row_of(const probes::SlowCallOverview &call) {
    return {time_html(call.ended),
            call.duration_ns ? duration_text(static_cast<double>(*call.duration_ns) / 1e9) : "-",
            code(call.function, max_function_bytes) + "<p>" + text_html(call.library) + "</p>",
            process_html(call.names, call.pid),
            call.error ? "<b class=\"bad\">" + text_html(*call.error) + "</b>" : "",
            stack_html(call.stack == nullptr ? std::vector<symbols::Frame>() : *call.stack,
                       std::to_string(call.ended.count()))};
}

// A part that nobody looks at while all is well.
std::string folded(std::string_view id, bool is_open, const std::string &summary,
                   const std::string &html) {
    return "<details id=\"" + std::string(id) + "\"" + (is_open ? " open=\"\"" : "") +
           "><summary>" + summary + "</summary>\n" + html + "</details>\n";
}

}  // namespace

std::string probes_section(const Facts &facts) {
    if (facts.probes.empty()) {
        return heading(probes_list) + sentence("There is no probe.");
    }
    const std::string good = good_news(facts);
    const auto enabled = worst_first(facts.probes);
    List list(probes_list);
    for (const ProbeFacts *probe : enabled) {
        if (!list.add({text_html(probe->name), state_html(probe->state), attached_text(*probe),
                       rate_html(probe->rate.events), count_text(probe->events),
                       rate_html(probe->rate.lost), lost_html(*probe), detail_html(*probe)})) {
            break;
        }
    }
    const std::string period =
        sentence(dim("Per second: over the last " + duration_text(facts.rate_seconds) +
                     ". The others: since the start."));
    return heading(probes_list) +
           folded(
               "all-probes", good.empty(),
               good.empty() ? counted(facts.probes.size(), "probe", "probes") : good,
               list.html(enabled.size(), ": see <code>gpusnoop_probe_up</code> of the <a href=\"." +
                                             escape_html(facts.telemetry_path) + "\">metrics</a>") +
                   (enabled.empty() ? "" : period) + disabled_html(facts.probes));
}

std::string why_unknown(const Facts &facts, std::string_view probe) {
    const auto its = std::ranges::find(facts.probes, probe, &ProbeFacts::name);
    if (its != facts.probes.end() && its->state == probes::ProbeState::up) {
        return "";
    }
    const bool is_off = its != facts.probes.end() && its->state == probes::ProbeState::disabled;
    return "the probe <code>" + std::string(probe) + "</code> is " +
           (is_off ? "disabled by the configuration" : "not up");
}

std::string not_known(const Facts &facts, std::string_view probe) {
    const std::string why = why_unknown(facts, probe);
    return sentence("Not known" + (why.empty() ? "" : ": " + why) + ".");
}

std::string profiles_section(const Facts &facts) {
    return facts.may_profile ? "<h2 id=\"profiles\">Profiles</h2>\n" +
                                   sentence(
                                       "Of all GPU processes, and of what they start, for 10 "
                                       "seconds, as a flame graph: " +
                                       profile_links_html() + ".")
                             : "";
}

std::string allocations_section(const Facts &facts) {
    std::string html = heading(allocations_list);
    if (!facts.overview.memory) {
        return html + not_known(facts, "cuda");
    }
    const probes::MemoryOverview &memory = *facts.overview.memory;
    if (memory.sites.empty()) {
        return html + sentence("No process holds memory that it allocated since the start.");
    }
    List list(allocations_list);
    for (const probes::SiteOverview &site : memory.sites) {
        if (!list.add({code(site.site.empty() ? "unknown" : site.site),
                       bytes_text(site.outstanding.bytes), count_text(site.outstanding.count),
                       process_html(site.names, site.pid)})) {
            break;
        }
    }
    return html + list.html(memory.site_count,
                            ", which hold less: see <a href=\"./api/v1/allocations\">all</a>");
}

std::string slow_calls_section(const Facts &facts) {
    std::string html = heading(slow_calls_list);
    if (!facts.overview.slow_calls) {
        return html + not_known(facts, "functions");
    }
    const probes::SlowCallsOverview &calls = *facts.overview.slow_calls;
    if (calls.last.empty()) {
        return html + sentence("No call has taken as long as its <code>slow_threshold</code>.");
    }
    List list(slow_calls_list);
    for (const probes::SlowCallOverview &call : calls.last) {
        if (!list.add(row_of(call))) {
            break;
        }
    }
    return html + list.html(calls.kept,
                            " before them: see <a href=\"./api/v1/slow_calls\">all that are "
                            "kept</a>");
}

std::string libraries_section(const Facts &facts) {
    std::string html = heading(libraries_list);
    if (facts.libraries.empty()) {
        return html + sentence("No process uses a library that a probe attaches to.");
    }
    List list(libraries_list);
    for (const LibraryFacts &library : facts.libraries) {
        if (!list.add(
                {code(library.path), count_text(library.processes), library_state(library),
                 library.build.empty() ? dim("none") : code(library.build, max_name_bytes)})) {
            break;
        }
    }
    const bool has_problem = std::ranges::any_of(
        facts.libraries, [](const LibraryFacts &library) { return !library.problems.empty(); });
    return html + folded("all-libraries", has_problem,
                         "Files that probes attach to: " + count_text(facts.libraries.size()),
                         list.html(facts.libraries.size(),
                                   ", which fewer processes use: the log names each") +
                             about_expensive(facts.libraries));
}

}  // namespace gpusnoop::status
