// The GPU programs of a node, by an exporter's page of metrics.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/cli/top/text.h"

namespace gpusnoop::top {

// As the metrics have it: processes of one name in one container are one program.
struct ProgramKey {
    std::string comm;
    std::string script;
    std::string container;
    std::string slurm_job_id;
    auto operator<=>(const ProgramKey &) const = default;
};

// Numbers of seconds, bytes and events are since counting began, of all its processes.
struct Program {
    std::set<std::string> gpus;  // on which it holds memory
    std::set<std::string> pods;
    std::uint64_t processes = 0;
    double held_bytes = 0;  // now, on GPUs
    double launches = 0;
    double copied_bytes = 0;
    double errors = 0;
    double launching_seconds = 0;    // of threads that launch
    double waiting_seconds = 0;      // of these, in calls that wait for the GPU
    double oldest_call_seconds = 0;  // that has not returned; 0: there is none
    // Bytes now, by the label `site`: of allocations of CUDA's, and of tensors.
    std::map<std::string, double> sites;
    std::map<std::string, double> tensor_sites;
};

struct HangingCall {
    std::string function;  // empty: there is none, or it is not known
    std::string site;      // where in Python it was made; empty: not known
};

struct ProgramsSample {
    std::string version;
    double began = 0;  // seconds since 1970: the exporter
    std::map<ProgramKey, Program> programs;
};

// Texts are unchanged. Errors say why it is no exporter's page; it may contain anything.
[[nodiscard]] Result<ProgramsSample> parse_programs(std::string_view page);

struct ProgramRow {
    ProgramKey key;
    Program now;
    double grown_bytes = 0;  // of what it holds, since the first sample
    double launches = 0;     // a second, as the next three
    double copied_bytes = 0;
    double errors = 0;
    double launching_seconds = 0;
    double waiting_seconds = 0;
    // The call site whose memory grew most since the first sample, and by how much; empty: none
    // did.
    std::string growing_site = {};
    double site_grown_bytes = 0;
    HangingCall hanging = {};  // its oldest call
};

// What came in these seconds; the most memory first.
[[nodiscard]] std::vector<ProgramRow> compare(const ProgramsSample &first,
                                              const ProgramsSample &before,
                                              const ProgramsSample &now, double seconds);

// The most errors a second first.
void sort_by_errors(std::vector<ProgramRow> &rows);

// `rows` is null until there is something to compare with.
[[nodiscard]] std::string head_line(const std::string &address, const ProgramsSample &now,
                                    double now_seconds, const std::vector<ProgramRow> *rows);
// The program and its most important numbers are in the first 80 characters of each line. More
// `columns` show more of its name, once they have the other columns. Below a program, a line that
// begins with spaces says where it hangs, or else where its memory grew most.
[[nodiscard]] std::vector<std::string> table_lines(const std::vector<ProgramRow> &rows,
                                                   std::size_t most,
                                                   std::size_t columns = any_width);
[[nodiscard]] std::vector<std::string> programs_help();

}  // namespace gpusnoop::top
