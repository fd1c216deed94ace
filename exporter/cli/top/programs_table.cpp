#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>

#include "exporter/base/quantity_text.h"
#include "exporter/base/text.h"
#include "exporter/cli/top/columns.h"
#include "exporter/cli/top/programs.h"

namespace gpusnoop::top {

namespace {

constexpr std::size_t max_gpus_width = 16;
constexpr std::size_t max_program_width = 48;
constexpr std::array<std::pair<const char *, std::size_t>, 8> number_columns = {{{"held", 10},
                                                                                 {"grown", 11},
                                                                                 {"launches/s", 10},
                                                                                 {"copied/s", 11},
                                                                                 {"err/s", 8},
                                                                                 {"wait", 5},
                                                                                 {"hangs", 8},
                                                                                 {"procs", 5}}};

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

std::array<std::string, number_columns.size()> numbers_of(const ProgramRow &row) {
    return {
        size_text(row.now.held_bytes),
        row.grown_bytes == 0 ? "0" : (row.grown_bytes < 0 ? "-" : "+") + size_text(row.grown_bytes),
        rate_text(row.launches),
        size_text(row.copied_bytes),
        rate_text(row.errors),
        wait_text(row),
        row.now.oldest_call_seconds > 0 ? age_text(row.now.oldest_call_seconds) : "-",
        std::to_string(row.now.processes)};
}

void append(std::vector<std::string> &lines, const TextColumn &column, const char *space) {
    const std::size_t width = column.width();
    lines.front() += left_aligned(column.title, width) + space;
    for (std::size_t i = 0; i < column.texts.size(); i++) {
        lines[i + 1] += left_aligned(cut(column.texts[i], width), width) + space;
    }
}

}  // namespace

std::string head_line(const std::string &address, const ProgramsSample &now, double now_seconds) {
    double held = 0;
    std::uint64_t processes = 0;
    for (const auto &[key, program] : now.programs) {
        held += program.held_bytes;
        processes += program.processes;
    }
    return fmt::format("gpusnoop_exporter {} at {}, up {}, {} GPU program{}, {} process{}, {} held",
                       printable(now.version), printable(address),
                       span_text(std::max(0.0, now_seconds - now.began)), now.programs.size(),
                       now.programs.size() == 1 ? "" : "s", processes, processes == 1 ? "" : "es",
                       size_text(held));
}

std::vector<std::string> table_lines(const std::vector<ProgramRow> &rows, std::size_t most) {
    const std::size_t count = std::min(most, rows.size());
    TextColumn gpus{"GPU", max_gpus_width};
    TextColumn programs{"program", max_program_width};
    TextColumn pods{"pod", max_program_width};
    std::vector<std::string> lines(count + 1);
    for (std::size_t i = 0; i < count; i++) {
        gpus.texts.push_back(joined(rows[i].now.gpus));
        programs.texts.push_back(program_text(rows[i].key));
        pods.texts.push_back(pod_text(rows[i]));
    }
    append(lines, gpus, " ");
    for (std::size_t column = 0; column < number_columns.size(); column++) {
        const auto [title, width] = number_columns.at(column);
        lines.front() += right_aligned(title, width) + " ";
        for (std::size_t i = 0; i < count; i++) {
            lines[i + 1] += right_aligned(numbers_of(rows[i]).at(column), width) + " ";
        }
    }
    for (std::string &line : lines) {
        line += " ";
    }
    append(lines, programs, "  ");
    append(lines, pods, "");
    return lines;
}

}  // namespace gpusnoop::top
