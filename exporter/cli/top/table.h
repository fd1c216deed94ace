// Turns two samples into lines for people.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "exporter/cli/top/sample.h"
#include "exporter/cli/top/text.h"
#include "exporter/probes/functions/report/rates.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::top {

enum class Sort { calls, seconds, slow, errors, max };

// What a row is of: a GPU program, a function, or a function in a running process.
enum class By { program, function, process };

struct Row {
    FunctionKey key;
    processes::ProcessNames process;  // if the key has a pid
    bool has_errors = false;
    bool has_slow_calls = false;
    std::uint64_t calls = 0;  // since counting began
    probes::FunctionRates rates;
};

// The calls between the two samples. Empty if they do not belong together: the exporter was
// restarted, or another one responded.
[[nodiscard]] std::optional<std::vector<Row>> compare(const Sample &before, const Sample &now);

// The largest first. Equal rows, for example without calls, are sorted by their calls since
// counting began, and then by name.
void sort_rows(std::vector<Row> &rows, Sort sort);

// One line: the exporter's address, and the sum of all functions. `rows` is null until there is
// something to compare with.
[[nodiscard]] std::string head_line(const std::string &address, const Sample &now,
                                    const std::vector<Row> *rows);

// A line of titles, and one for each of the first `most` rows. Lines contain no control characters,
// and may be long. The function comes last, whole, or first, if less than a part of its name would
// be in the first `columns` characters.
[[nodiscard]] std::vector<std::string> table_lines(const std::vector<Row> &rows, std::size_t most,
                                                   std::size_t columns = any_width);
[[nodiscard]] std::vector<std::string> functions_help();

}  // namespace gpusnoop::top
