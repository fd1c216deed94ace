#include "exporter/cli/top/table.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/cli/top/columns.h"
#include "exporter/cli/top/text.h"

namespace gpusnoop::top {

namespace {

constexpr std::size_t number_width = 8;
constexpr std::size_t max_library_width = 24;
constexpr std::size_t max_process_width = 48;
constexpr std::size_t max_function_width = 256;
constexpr std::size_t narrow_name_width = 24;  // of a function, and of a process
constexpr std::size_t numbers_width = 7 * (number_width + 1);

double key_of(const Row &row, Sort sort) {
    switch (sort) {
        case Sort::calls:
            return row.rates.calls;
        case Sort::seconds:
            return row.rates.busy;
        case Sort::slow:
            return row.rates.slow_calls;
        case Sort::errors:
            return row.rates.errors;
        case Sort::max:
            break;
    }
    return row.rates.max.value_or(0);
}

std::string counted(std::uint64_t number, std::string_view thing) {
    return std::to_string(number) + " " + std::string(thing) + (number == 1 ? "" : "s");
}

std::string processes_text(std::uint64_t number) {
    return std::to_string(number) + (number == 1 ? " process" : " processes");
}

std::string process_text(const Row &row) {
    if (row.key.pid == 0) {
        return "";
    }
    const processes::ProcessNames &process = row.process;
    std::string text = printable(process.comm);
    if (!process.script.empty()) {
        text += " " + printable(process.script);
    }
    text += " " + std::to_string(row.key.pid);
    if (!process.slurm_job_id.empty()) {
        text += " job " + printable(process.slurm_job_id);
    }
    if (!process.user.empty()) {
        text += " of " + printable(process.user);
    }
    return text;
}

std::string numbers_of(const std::array<std::string, 7> &numbers) {
    std::string line;
    for (const std::string &number : numbers) {
        line += right_aligned(number, number_width) + " ";
    }
    return line;
}

void append_numbers(std::vector<std::string> &lines, const std::vector<Row> &rows) {
    lines.front() += numbers_of({"calls/s", "err/s", "slow/s", "mean", "p50", "p99", "max"});
    for (std::size_t i = 0; i + 1 < lines.size(); i++) {
        const Row &row = rows[i];
        const probes::FunctionRates &rates = row.rates;
        lines[i + 1] += numbers_of(
            {rate_text(rates.calls), row.has_errors ? rate_text(rates.errors) : "-",
             row.has_slow_calls ? rate_text(rates.slow_calls) : "-", duration_text(rates.mean),
             duration_text(rates.p50), duration_text(rates.p99), duration_text(rates.max)});
    }
}

void append(std::vector<std::string> &lines, const TextColumn &column, std::size_t most,
            const char *before, const char *after) {
    const std::size_t width = std::min(column.width(), most);
    lines.front() += before + left_aligned(column.title, width) + after;
    for (std::size_t i = 0; i + 1 < lines.size(); i++) {
        lines[i + 1] += before + left_aligned(cut(column.texts[i], width), width) + after;
    }
}

}  // namespace

std::optional<std::vector<Row>> compare(const Sample &before, const Sample &now) {
    const double seconds = now.elapsed - before.elapsed;
    if (before.since != now.since || before.bounds != now.bounds || !(seconds > 0)) {
        return std::nullopt;
    }
    const probes::FunctionTotals nothing;
    std::vector<Row> rows;
    for (const auto &[key, function] : now.functions) {
        const auto known = before.functions.find(key);
        auto done = grown_since(function.totals,
                                known == before.functions.end() ? nothing : known->second.totals);
        if (!done && key.pid != 0) {
            done = grown_since(function.totals, nothing);  // another process has the id now
        }
        if (!done) {
            return std::nullopt;
        }
        rows.push_back({key, function.process, function.has_errors, function.has_slow_calls,
                        function.totals.calls, rates_of(*done, now.bounds, seconds)});
    }
    return rows;
}

void sort_rows(std::vector<Row> &rows, Sort sort) {
    std::ranges::sort(rows, [&](const Row &a, const Row &b) {
        const double key_a = key_of(a, sort);
        const double key_b = key_of(b, sort);
        return std::tie(key_b, b.calls, a.key) < std::tie(key_a, a.calls, b.key);
    });
}

std::string head_line(const std::string &address, const Sample &now, const std::vector<Row> *rows) {
    std::string line = "gpusnoop_exporter " + printable(now.version) + " at " + printable(address) +
                       ", up " + span_text(now.elapsed) + ", " + processes_text(now.processes);
    if (rows != nullptr) {
        double calls = 0;
        double errors = 0;
        std::set<std::pair<std::string_view, std::string_view>> functions;
        for (const Row &row : *rows) {
            functions.emplace(row.key.library, row.key.function);
            calls += row.rates.calls;
            errors += row.rates.errors;
        }
        line += ", " + counted(functions.size(), "function") + " with " + rate_text(calls) +
                " calls/s and " + rate_text(errors) + " errors/s";
    }
    if (now.left_out > 0) {
        line += ", " + std::to_string(now.left_out) + " left out";
    }
    return line;
}

std::vector<std::string> table_lines(const std::vector<Row> &rows, std::size_t most,
                                     std::size_t columns) {
    const std::size_t count = std::min(most, rows.size());
    TextColumn libraries{"library", max_library_width};
    TextColumn processes{"process", max_process_width};
    TextColumn functions{"function", max_function_width};
    for (std::size_t i = 0; i < count; i++) {
        libraries.texts.push_back(printable(rows[i].key.library));
        processes.texts.push_back(process_text(rows[i]));
        functions.texts.push_back(printable(rows[i].key.function));
    }
    const bool by_process =
        std::ranges::any_of(rows, [](const Row &row) { return row.key.pid != 0; });
    const std::size_t before =
        numbers_width + 1 + libraries.width() + 2 + (by_process ? processes.width() + 2 : 0);
    const bool is_narrow = columns < before + std::min(functions.width(), narrow_name_width);
    std::vector<std::string> lines(count + 1);
    if (is_narrow) {
        append(lines, functions, narrow_name_width, "", "");
        if (by_process) {
            append(lines, processes, narrow_name_width, " ", "");
        }
    }
    append_numbers(lines, rows);
    append(lines, libraries, max_library_width, " ", " ");
    if (!is_narrow) {
        if (by_process) {
            append(lines, processes, max_process_width, " ", " ");
        }
        lines.front() += " " + functions.title;
        for (std::size_t i = 0; i < count; i++) {
            lines[i + 1] += " " + functions.texts[i];
        }
    }
    return lines;
}

std::vector<std::string> functions_help() {
    return {"calls/s         calls that ended since the last answer",
            "err/s, slow/s   of these, those that failed, and slow ones; -: not known",
            "mean, p50, p99  time inside the calls",
            "max             the longest of them, or an upper bound of it",
            "",
            "Errors of all CUDA calls are in the view of programs (p)."};
}

}  // namespace gpusnoop::top
