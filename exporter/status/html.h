// Pieces of HTML. What takes text takes anything, and makes it harmless; what takes `html` takes
// what these made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::status {

// `text` for HTML content and quoted attributes: valid UTF-8, no markup, nothing that turns the
// direction of what stands beside it, at most `max_bytes` bytes before escaping.
[[nodiscard]] std::string escape_html(std::string_view text, std::size_t max_bytes = 128);

// Shown as people read it, with the number itself as its value.
[[nodiscard]] std::string bytes_html(std::uint64_t bytes);
[[nodiscard]] std::string count_html(std::uint64_t count);
[[nodiscard]] std::string rate_html(double per_second);
[[nodiscard]] std::string duration_html(double seconds);

// A moment by CLOCK_REALTIME, to the second.
[[nodiscard]] std::string time_html(std::chrono::nanoseconds since_epoch);

// "1 process", "2 processes": `plural` is the word for all other counts.
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view one,
                                  std::string_view plural);

struct Column {
    std::string_view title;
    bool is_number = false;
};

// Each row has as many cells of HTML as there are columns; the first one names the row. On a narrow
// screen the table scrolls by itself, also by the keyboard. `labelled_by` is the id of its heading.
[[nodiscard]] std::string table_html(std::string_view labelled_by,
                                     const std::vector<Column> &columns,
                                     const std::vector<std::vector<std::string>> &rows);

}  // namespace gpusnoop::status
