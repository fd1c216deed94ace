// What `why` prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/host_time/gaps/conclusion.h"
#include "exporter/probes/host_time/process_times.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::why {

// The launching threads of an exporter at one time: its page /api/v1/threads, which is not trusted.

struct Process {
    std::uint32_t pid = 0;
    std::uint64_t threads = 0;
    processes::ProcessNames names;
    probes::ProcessTimes times;
};

struct Times {
    std::uint64_t elapsed_ns = 0;              // since the exporter began to count
    std::map<std::string, Process> processes;  // by the ids of the document
};

// Texts are printable. Errors say why the document is wrong; it may contain anything.
[[nodiscard]] Result<Times> parse_times(std::string_view json);

// A process, with what its launching threads did in between.
struct Finding {
    Process process;
    probes::Conclusion conclusion;
    std::string site{};  // where in Python the call that hangs was made; empty: not known
};

struct Report {
    std::uint64_t elapsed_ns = 0;
    std::vector<Finding> findings;  // the worst first
    bool is_of_all = true;          // false: of processes that were asked for
};

// Of the processes whose name or script matches the glob. Fails if the second is of an exporter
// that was started since the first.
[[nodiscard]] Result<Report> report_of(const Times &before, const Times &now,
                                       const std::string &name);

// Whether a call of any hangs.
[[nodiscard]] bool has_hangs(const Report &report);
// Adds the sites of calls that hang. `in_flight` is a page /api/v1/in_flight, or anything else.
void add_sites(Report &report, std::string_view in_flight);

// For each program a sentence and a table of its worst process, and how many are not shown.
[[nodiscard]] std::string report_text(const Report &report);
// An object, in one line.
[[nodiscard]] std::string report_json(const Report &report);

// Which programs the text of `why` shows.

inline constexpr std::size_t most_shown_programs = 10;

// Orders findings: hangs, then the most time in what limits the process, then those that the GPU
// limits, then idle ones.
[[nodiscard]] bool is_worse(const Finding &one, const Finding &other);

// Processes with the same names but for the user; the worst first, at least one.
struct Program {
    std::vector<const Finding *> processes;
    std::uint64_t wall_ns = 0;  // of all
};

struct Programs {
    std::vector<Program> shown;   // the worst first
    std::size_t over_limit = 0;   // more of them
    std::size_t short_lived = 0;  // that had less than least_ns
    std::uint64_t least_ns = 0;
};

// Short-lived programs count only if they were asked for. The report must outlive it.
[[nodiscard]] Programs programs_of(const Report &report);

}  // namespace gpusnoop::why
