#include "exporter/status/html.h"

#include <spdlog/fmt/fmt.h>

#include "exporter/base/quantity_text.h"
#include "exporter/base/utc_time.h"

namespace gpusnoop::status {

namespace {

std::string with_value(const std::string &value, const std::string &text) {
    return "<data value=\"" + value + "\">" + text + "</data>";
}

std::string cell(std::string_view tag, const Column &column, const std::string &html) {
    const bool is_row_header = tag == "th";
    return fmt::format("<{}{}{}>{}</{}>", tag, is_row_header ? " scope=\"row\"" : "",
                       column.is_number ? " class=\"n\"" : "", html, tag);
}

}  // namespace

std::string bytes_html(std::uint64_t bytes) {
    return with_value(std::to_string(bytes), bytes_text(bytes));
}

std::string count_html(std::uint64_t count) {
    return with_value(std::to_string(count), count_text(count));
}

std::string rate_html(double per_second) {
    return with_value(fmt::format("{:.6g}", per_second), escape_html(rate_text(per_second)));
}

std::string duration_html(double seconds) {
    return with_value(fmt::format("{:.9g}", seconds), duration_text(seconds));
}

std::string age_html(double seconds) {
    return with_value(fmt::format("{:.9g}", seconds), age_text(seconds));
}

std::string time_html(std::chrono::nanoseconds since_epoch) {
    const std::string text = utc_time(since_epoch);
    const std::string day = text.substr(0, 10);
    const std::string time = text.substr(11, 8);
    return "<time datetime=\"" + day + "T" + time + "Z\">" + day + " " + time + "</time>";
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view plural) {
    return count_text(count) + ' ' + std::string(count == 1 ? one : plural);
}

std::string table_html(std::string_view labelled_by, const std::vector<Column> &columns,
                       const std::vector<std::vector<std::string>> &rows) {
    std::string html = fmt::format(
        "<div class=\"scroll\" role=\"region\" aria-labelledby=\"{}\" tabindex=\"0\">\n"
        "<table>\n<thead><tr>",
        labelled_by);
    for (const Column &column : columns) {
        html += fmt::format("<th scope=\"col\"{}>{}</th>", column.is_number ? " class=\"n\"" : "",
                            column.title);
    }
    html += "</tr></thead>\n<tbody>\n";
    for (const std::vector<std::string> &row : rows) {
        html += "<tr>";
        for (std::size_t i = 0; i < columns.size(); i++) {
            html += cell(i == 0 ? "th" : "td", columns[i], row.at(i));
        }
        html += "</tr>\n";
    }
    return html + "</tbody>\n</table>\n</div>\n";
}

}  // namespace gpusnoop::status
