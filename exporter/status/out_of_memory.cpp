// The section of the page at / on programs that were refused GPU memory.
#include <cstddef>
#include <string>

#include "exporter/base/text/quantity_text.h"
#include "exporter/status/lists.h"
#include "exporter/status/parts.h"
#include "exporter/status/sections.h"

namespace gpusnoop::status {

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

}  // namespace gpusnoop::status
