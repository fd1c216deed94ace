// Pieces of HTML. A parameter for text accepts any text, and is escaped; a parameter `html` accepts
// only the results of these functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/markup.h"

namespace gpusnoop::status {

// Shown in a form for people, with the exact number as its value.
[[nodiscard]] std::string bytes_html(std::uint64_t bytes);
[[nodiscard]] std::string count_html(std::uint64_t count);
[[nodiscard]] std::string rate_html(double per_second);
[[nodiscard]] std::string duration_html(double seconds);
[[nodiscard]] std::string age_html(double seconds);

// A time of CLOCK_REALTIME, to the second.
[[nodiscard]] std::string time_html(std::chrono::nanoseconds since_epoch);

// "1 process", "2 processes": `plural` is the word for every count but 1.
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view one,
                                  std::string_view plural);

struct Column {
    std::string_view title;
    bool is_number = false;
};

// Each row has as many cells of HTML as there are columns; the first cell names the row. On a
// narrow screen the table scrolls on its own, also by keyboard. `labelled_by` is the id of its
// heading.
[[nodiscard]] std::string table_html(std::string_view labelled_by,
                                     const std::vector<Column> &columns,
                                     const std::vector<std::vector<std::string>> &rows);

}  // namespace gpusnoop::status
