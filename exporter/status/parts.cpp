#include "exporter/status/parts.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "exporter/base/quantity_text.h"
#include "exporter/status/html.h"

namespace gpusnoop::status {

namespace {

constexpr std::size_t shown_container_bytes = 12;  // as docker ps shows it

}  // namespace

std::string heading(std::string_view id, std::string_view title) {
    return fmt::format("<h2 id=\"{}\">{}</h2>\n", id, title);
}

std::string sentence(const std::string &html) {
    return "<p>" + html + "</p>\n";
}

std::string more(std::uint64_t all, std::uint64_t shown, const std::string &where) {
    return all > shown ? sentence("And " + count_text(all - shown) + " more" + where + ".") : "";
}

std::string code(std::string_view text, std::size_t max_bytes) {
    return "<code class=\"fit\">" + escape_html(text, max_bytes) + "</code>";
}

std::string container_html(const std::string &container) {
    if (container.empty()) {
        return "<span class=\"dim\">none</span>";
    }
    return "<code title=\"" + escape_html(container) + "\">" +
           escape_html(container, shown_container_bytes) + "</code>";
}

std::string profile_links_html(std::optional<std::uint32_t> pid) {
    const std::string of = pid ? "&amp;pid=" + std::to_string(*pid) : "";
    std::string links;
    for (const auto &[type, title] : {std::pair("cpu", "CPU"), std::pair("offcpu", "waits"),
                                      std::pair("page_faults", "page faults")}) {
        links += fmt::format(
            "{}<a rel=\"nofollow\" href=\"./api/v1/profile?type={}{}&amp;format=svg\">{}</a>",
            links.empty() ? "" : ", ", type, of, title);
    }
    return links;
}

std::string process_html(const processes::ProcessNames &names, std::uint32_t pid) {
    std::string html = escape_html(names.comm);
    if (!names.script.empty()) {
        html += " " + escape_html(names.script);
    }
    html += " <small class=\"keep\">pid " + std::to_string(pid) + "</small>";
    std::string whose;
    if (!names.user.empty()) {
        whose = "of " + escape_html(names.user);
    }
    if (!names.slurm_job_id.empty()) {
        whose += (whose.empty() ? "" : ", ") + std::string("Slurm job ") +
                 escape_html(names.slurm_job_id);
    }
    return whose.empty() ? html : html + "<br><small>" + whose + "</small>";
}

}  // namespace gpusnoop::status
