#include "exporter/status/parts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "exporter/base/text/quantity_text.h"
#include "exporter/status/rates.h"

namespace gpusnoop::status {

// HTML needs no end tags of cells, which would be a tenth of the page. That of the row keeps an
// empty last cell empty, without the end of the line.
bool List::add(const std::vector<std::string> &cells) {
    std::string row = "<tr>";
    for (const std::string &cell : cells) {
        row += (&cell == cells.data() ? "<th>" : "<td>") + cell;
    }
    row += "</tr>\n";
    // A longer row that comes after this one is not better, and a shorter one is not worse.
    is_full_ = is_full_ || shown_ == kind_.max_rows || rows_.size() + row.size() > kind_.max_bytes;
    if (!is_full_) {
        rows_ += row;
        shown_++;
    }
    return !is_full_;
}

// The region scrolls on its own where it is too narrow, also by keyboard.
std::string List::html(std::uint64_t all, std::string_view where) const {
    std::string html;
    if (shown_ > 0) {
        html = fmt::format(
            "<div class=\"scroll\" role=\"region\" aria-labelledby=\"{0}\" tabindex=\"0\">\n"
            "<table class=\"{0}\">\n<thead><tr>",
            kind_.id);
        for (const Column &column : kind_.columns) {
            html += column.title.empty() ? "" : fmt::format("<th scope=\"col\">{}", column.title);
        }
        html += "\n<tbody>\n" + rows_ + "</table>\n</div>\n";
    }
    return html + more(all, shown_, where);
}

namespace {

constexpr std::size_t shown_container_bytes = 12;  // as docker ps shows it

// "of alice, Slurm job 4711, container 4be1c9aa77d0".
std::string whose_html(const processes::ProcessNames &names) {
    std::string html;
    const auto add = [&](std::string_view what, const std::string &name, std::size_t max_bytes) {
        if (!name.empty()) {
            html += (html.empty() ? "" : ", ") + std::string(what) + text_html(name, max_bytes);
        }
    };
    add("of ", names.user, max_name_bytes);
    add("Slurm job ", names.slurm_job_id, max_name_bytes);
    add("container ", names.container, shown_container_bytes);
    return html;
}

}  // namespace

std::string text_html(std::string_view text, std::size_t max_bytes) {
    std::string html = escape_html(text, max_bytes);
    // What is escaped takes up to six times as much: a part of the text as much shorter.
    for (std::size_t bytes = max_bytes; html.size() > max_bytes; html = escape_html(text, bytes)) {
        bytes = bytes * max_bytes / html.size();
    }
    return html;
}

std::string heading(const ListKind &list) {
    return fmt::format("<h2 id=\"{}\">{}</h2>\n", list.id, list.title);
}

std::string dim(const std::string &html) {
    return "<small>" + html + "</small>";
}

std::string sentence(const std::string &html) {
    return "<p>" + html + "</p>\n";
}

std::string more(std::uint64_t all, std::uint64_t shown, std::string_view where) {
    return all > shown
               ? sentence("And " + count_text(all - shown) + " more" + std::string(where) + ".")
               : "";
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view plural) {
    return count_text(count) + ' ' + std::string(count == 1 ? one : plural);
}

std::string rate_html(double per_second) {
    return text_html(rate_text(per_second));
}

std::string time_html(std::chrono::nanoseconds since_epoch) {
    const std::string text = utc_time(since_epoch);
    return "<time>" + text.substr(0, 10) + " " + text.substr(11, 8) + "Z</time>";
}

std::string code(std::string_view text, std::size_t max_bytes) {
    return "<code>" + text_html(text, max_bytes) + "</code>";
}

std::string by_name(const std::map<std::string, std::uint64_t> &counts) {
    std::string html;
    for (const auto &[name, count] : counts) {
        html += (html.empty() ? "" : ", ") + text_html(name) + " " + count_text(count);
    }
    return html;
}

std::string runbook_html(std::string_view alert, const std::string &html) {
    return fmt::format("<a href=\"{}/runbooks/{}.md\">{}</a>", docs_address, alert, html);
}

std::string profile_links_html(std::optional<std::uint32_t> pid) {
    const std::string of = pid ? "&amp;pid=" + std::to_string(*pid) : "";
    std::string links;
    for (const auto &[type, title] : {std::pair("cpu", "CPU"), std::pair("offcpu", "waits")}) {
        links += fmt::format("{}<a href=\"./api/v1/profile?format=svg&amp;type={}{}\">{}</a>",
                             links.empty() ? "" : ", ", type, of, title);
    }
    return links;
}

std::string growth_html(const std::vector<std::uint64_t> &bytes) {
    if (bytes.size() < 2) {
        return dim("not yet known");
    }
    const auto [low, high] = std::ranges::minmax(bytes);
    // What changes by less than this is level.
    const std::uint64_t least = high / 50;
    constexpr int bottom = 16;
    constexpr double height = 14;
    const auto y_of = [&, low = low, high = high](std::uint64_t one) {
        const double share = high - low <= least
                                 ? 0.5
                                 : static_cast<double>(one - low) / static_cast<double>(high - low);
        return bottom - static_cast<int>(share * height);
    };
    // Each second sample. The newest is at the right, also while the line is short.
    constexpr std::size_t step = 8;  // the width in style.cpp is that of all steps
    const std::size_t last = bytes.size() - 1;
    int y = y_of(bytes[last % 2]);
    std::string line = fmt::format("M{} {}", step / 2 * (Past::most_samples - last + last % 2), y);
    std::size_t level = 0;
    for (std::size_t i = last % 2 + 2; i <= last; i += 2) {
        const int next = y_of(bytes[i]);
        level += step;
        if (next != y) {
            // A run at one height is a piece of the line.
            line += level > step ? fmt::format("h{}", level - step) : "";
            line += fmt::format("l{} {}", step, next - y);
            level = 0;
        }
        y = next;
    }
    line += level > 0 ? fmt::format("h{}", level) : "";
    const bool has_grown = bytes.back() >= bytes.front();
    const std::uint64_t change =
        has_grown ? bytes.back() - bytes.front() : bytes.front() - bytes.back();
    const std::string text =
        change <= least ? "level" : (has_grown ? "+" : "&minus;") + bytes_text(change);
    return "<svg aria-hidden=\"true\"><path d=\"" + line + "\"></path></svg> " + text;
}

std::string short_process_html(const processes::ProcessNames &names, std::uint32_t pid) {
    return text_html(names.comm) + (names.script.empty() ? "" : " ") + text_html(names.script) +
           " <small>pid " + std::to_string(pid) + "</small>";
}

std::string process_html(const processes::ProcessNames &names, std::uint32_t pid) {
    const std::string whose = whose_html(names);
    return short_process_html(names, pid) + (whose.empty() ? "" : "<p>" + whose + "</p>");
}

std::string stack_html(const std::vector<symbols::Frame> &stack, const std::string &id) {
    if (stack.empty()) {
        return dim("not known");
    }
    std::string html = "<details id=\"call-" + id + "\"><summary>" +
                       counted(stack.size(), "call", "calls") + "</summary><ol>";
    for (std::size_t i = 0; i < std::min(stack.size(), max_frames); i++) {
        const symbols::Frame &frame = stack[i];
        html += "<li>" +
                text_html(frame.function.empty() ? "unknown" : frame.function, max_function_bytes) +
                " <small>" + text_html(frame.module) + "</small>";
    }
    html += "</ol>";
    if (stack.size() > max_frames) {
        html += "and " + count_text(stack.size() - max_frames) + " more";
    }
    return html + "</details>";
}

}  // namespace gpusnoop::status
