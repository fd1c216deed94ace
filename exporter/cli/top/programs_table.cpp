#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/cli/top/columns.h"
#include "exporter/cli/top/programs.h"

namespace gpusnoop::top {

namespace {

constexpr std::size_t max_gpus_width = 16;
constexpr std::size_t min_program_width = 22;
constexpr std::size_t max_program_width = 48;
struct NumberColumn {
    const char *title;
    std::size_t width;
};
// Those that fit into 80 characters beside the program, and the others.
constexpr std::array<NumberColumn, 6> first_numbers = {
    {{"held", 10}, {"grown", 11}, {"launches/s", 10}, {"wait", 5}, {"err/s", 8}, {"hangs", 7}}};
constexpr std::array<NumberColumn, 2> more_numbers = {{{"copied/s", 11}, {"procs", 5}}};

std::string size_text(double bytes) {
    return bytes_text(static_cast<std::uint64_t>(std::llround(std::abs(bytes))));
}

std::string joined(const std::set<std::string> &texts) {
    std::string all;
    for (const std::string &text : texts) {
        all += (all.empty() ? "" : ",") + printable(text);
    }
    return all.empty() ? "-" : all;
}

std::string program_text(const ProgramKey &key) {
    std::string text = printable(key.comm);
    if (!key.script.empty()) {
        text += " " + printable(key.script);
    }
    if (!key.slurm_job_id.empty()) {
        text += " job " + printable(key.slurm_job_id);
    }
    return text;
}

std::string pod_text(const ProgramRow &row) {
    constexpr std::size_t short_id = 12;  // as container runtimes print it
    return row.now.pods.empty() && !row.key.container.empty()
               ? printable(row.key.container.substr(0, short_id))
               : joined(row.now.pods);
}

// The share of launching threads' time in calls that wait for the GPU.
std::string wait_text(const ProgramRow &row) {
    return row.launching_seconds > 0
               ? fmt::format("{:.0f}%", 100 * row.waiting_seconds / row.launching_seconds)
               : "-";
}

std::array<std::string, first_numbers.size()> first_numbers_of(const ProgramRow &row) {
    return {
        size_text(row.now.held_bytes),
        row.grown_bytes == 0 ? "0" : (row.grown_bytes < 0 ? "-" : "+") + size_text(row.grown_bytes),
        rate_text(row.launches),
        wait_text(row),
        rate_text(row.errors),
        row.now.oldest_call_seconds > 0 ? age_text(row.now.oldest_call_seconds) : "-"};
}

std::array<std::string, more_numbers.size()> more_numbers_of(const ProgramRow &row) {
    return {size_text(row.copied_bytes), std::to_string(row.now.processes)};
}

// Empty: nothing is known.
std::string where_text(const ProgramRow &row) {
    if (!row.hanging.function.empty()) {
        return "hangs in " + printable(row.hanging.function) +
               (row.hanging.site.empty() ? "" : " at " + printable(row.hanging.site));
    }
    return row.growing_site.empty()
               ? ""
               : "+" + size_text(row.site_grown_bytes) + " at " + printable(row.growing_site);
}

// Puts the places below their programs.
std::vector<std::string> with_places(std::vector<std::string> lines,
                                     const std::vector<ProgramRow> &rows) {
    std::vector<std::string> all = {std::move(lines.front())};
    for (std::size_t i = 1; i < lines.size(); i++) {
        all.push_back(std::move(lines[i]));
        if (const std::string where = where_text(rows[i - 1]); !where.empty()) {
            all.push_back("    " + where);
        }
    }
    return all;
}

void append(std::vector<std::string> &lines, const TextColumn &column, std::size_t width) {
    lines.front() += left_aligned(column.title, width);
    for (std::size_t i = 0; i < column.texts.size(); i++) {
        lines[i + 1] += left_aligned(cut(column.texts[i], width), width);
    }
}

void append_numbers(std::vector<std::string> &lines, const std::vector<ProgramRow> &rows,
                    const auto &columns, auto texts_of) {
    for (std::size_t column = 0; column < columns.size(); column++) {
        const auto [title, width] = columns.at(column);
        lines.front() += " " + right_aligned(title, width);
        for (std::size_t i = 0; i + 1 < lines.size(); i++) {
            lines[i + 1] += " " + right_aligned(texts_of(rows[i]).at(column), width);
        }
    }
}

std::size_t columns_width(const auto &columns) {
    std::size_t width = 0;
    for (const NumberColumn &column : columns) {
        width += 1 + column.width;
    }
    return width;
}

}  // namespace

std::string head_line(const std::string &address, const ProgramsSample &now, double now_seconds,
                      const std::vector<ProgramRow> *rows) {
    double held = 0;
    std::uint64_t processes = 0;
    for (const auto &[key, program] : now.programs) {
        held += program.held_bytes;
        processes += program.processes;
    }
    std::string failing;
    if (rows != nullptr) {
        double errors = 0;
        for (const ProgramRow &row : *rows) {
            errors += row.errors;
        }
        failing = ", " + rate_text(errors) + " errors/s";
    }
    return fmt::format(
        "gpusnoop_exporter {} at {}, up {}, {} GPU program{}, {} process{}, {} held{}",
        printable(now.version), printable(address),
        span_text(std::max(0.0, now_seconds - now.began)), now.programs.size(),
        now.programs.size() == 1 ? "" : "s", processes, processes == 1 ? "" : "es", size_text(held),
        failing);
}

std::vector<std::string> table_lines(const std::vector<ProgramRow> &rows, std::size_t most,
                                     std::size_t columns) {
    const std::size_t count = std::min(most, rows.size());
    TextColumn gpus{"GPU", max_gpus_width};
    TextColumn programs{"program", max_program_width};
    TextColumn pods{"pod", max_program_width};
    for (std::size_t i = 0; i < count; i++) {
        gpus.texts.push_back(joined(rows[i].now.gpus));
        programs.texts.push_back(program_text(rows[i].key));
        pods.texts.push_back(pod_text(rows[i]));
    }
    const std::size_t others = columns_width(first_numbers) + 2 + gpus.width() +
                               columns_width(more_numbers) + 2 + pods.width();
    const std::size_t room = columns > others ? columns - others : 0;
    const std::size_t program_width = std::min(programs.width(), std::max(room, min_program_width));
    std::vector<std::string> lines(count + 1);
    append(lines, programs, program_width);
    append_numbers(lines, rows, first_numbers, first_numbers_of);
    const auto space = [&] {
        for (std::string &line : lines) {
            line += "  ";
        }
    };
    space();
    append(lines, gpus, gpus.width());
    append_numbers(lines, rows, more_numbers, more_numbers_of);
    space();
    append(lines, pods, pods.width());
    return with_places(std::move(lines), rows);
}

std::vector<std::string> programs_help() {
    return {"program     the processes' name, their script and their Slurm job",
            "held        GPU memory that its processes hold",
            "grown       how much more that is than when top began",
            "launches/s  kernels that it launches",
            "wait        share of its launching threads' time in calls that wait for the GPU",
            "err/s       calls that return an error",
            "hangs       age of its oldest call that has not returned, if it is old",
            "GPU         the GPUs on which it holds memory",
            "copied/s    bytes that it copies",
            "procs       its running processes",
            "pod         the pod's UID, or the container's id",
            "below       where its oldest call hangs, or where its memory grew most"};
}

}  // namespace gpusnoop::top
