// The section of the page at / on programs that were refused GPU memory.
#include <cstddef>
#include <string>
#include <vector>

#include "exporter/status/html.h"
#include "exporter/status/parts.h"
#include "exporter/status/sections.h"

namespace gpusnoop::status {

namespace {

constexpr std::size_t max_sentence_bytes = 1024;

}  // namespace

std::string out_of_memory_section(const Facts &facts) {
    std::string html = heading("out-of-memory", "Out of memory");
    if (!facts.overview.out_of_memory) {
        return html + not_known(facts, "cuda");
    }
    const probes::OutOfMemoryOverview &events = *facts.overview.out_of_memory;
    if (events.last.empty()) {
        return html + sentence("No program has run out of GPU memory since the start.");
    }
    std::vector<std::vector<std::string>> rows;
    for (const probes::OutOfMemoryEventOverview &event : events.last) {
        rows.push_back({time_html(event.at), count_html(event.count),
                        event.requested ? bytes_html(*event.requested) : "-",
                        escape_html(event.gpu), process_html(event.names, event.pid),
                        container_html(event.names.container),
                        "<code>" + escape_html(event.verdict) + "</code>",
                        escape_html(event.sentence, max_sentence_bytes)});
    }
    html += table_html("out-of-memory",
                       {{"Time (UTC)"},
                        {"Refused", true},
                        {"Asked for", true},
                        {"GPU"},
                        {"Process"},
                        {"Container"},
                        {"Verdict"},
                        {"Who holds the memory"}},
                       rows);
    return html + more(events.count, rows.size(),
                       " before them: see <a href=\"./api/v1/out_of_memory\">the last ones</a>");
}

}  // namespace gpusnoop::status
