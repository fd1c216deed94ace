// Two samples -> the lines that a person sees.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "exporter/cli/top/sample.h"
#include "exporter/probes/functions/report/rates.h"

namespace gpusnoop::top {

enum class Sort { calls, seconds, slow, errors, max };

struct Row {
    FunctionKey key;
    bool has_errors = false;
    bool has_slow_calls = false;
    std::uint64_t calls = 0;  // since the counting began
    probes::FunctionRates rates;
};

// What was done between the two. Nothing where they are not of one counting: the exporter was
// restarted, or another one answered.
[[nodiscard]] std::optional<std::vector<Row>> compare(const Sample &before, const Sample &now);

// The largest first. Those that are equal, for example because nothing was called, by their calls
// since the counting began, and their names.
void sort_rows(std::vector<Row> &rows, Sort sort);

// One line: which exporter it is, and what all functions do together. `rows` is null while there is
// nothing to compare with.
[[nodiscard]] std::string head_line(const std::string &address, const Sample &now,
                                    const std::vector<Row> *rows);

// A line of titles, and one for each of the first `most` rows. Lines hold nothing that a terminal
// obeys, and may be long.
[[nodiscard]] std::vector<std::string> table_lines(const std::vector<Row> &rows, std::size_t most);

}  // namespace gpusnoop::top
