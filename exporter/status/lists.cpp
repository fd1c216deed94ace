#include "exporter/status/lists.h"

#include <spdlog/fmt/fmt.h>

#include "exporter/status/parts.h"

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

}  // namespace gpusnoop::status
