// The lists of the page at /: what each is called, its columns, and how much of it is shown. The
// rest is counted in a sentence.
//
// To add one: its kind here and in `all_lists`, its section in sections.h, and its place in
// page.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::status {

struct Column {
    std::string_view title{};  // empty: there are no more
    bool is_number = false;
};

struct ListKind {
    std::string_view id;  // of its heading; the table's class
    std::string_view title;
    std::size_t max_rows;
    std::size_t max_bytes;  // of its rows, as HTML
    std::array<Column, 8> columns;
};

inline constexpr ListKind processes_list{.id = "processes",
                                         .title = "GPU processes",
                                         .max_rows = 20,
                                         .max_bytes = 15'000,
                                         .columns = {{{"Process"},
                                                      {"Holds", true},
                                                      {"Last 15 min"},
                                                      {"GPU"},
                                                      {"Launches/s", true},
                                                      {"Errors", true},
                                                      {"Verdict"},
                                                      {"Oldest call"}}}};
inline constexpr ListKind in_flight_list{
    .id = "in-flight",
    .title = "Calls in flight",
    .max_rows = 10,
    .max_bytes = 6'000,
    .columns = {{{"Function"}, {"For", true}, {"Process"}, {"Thread"}, {"GPU"}, {"Where"}}}};
inline constexpr ListKind gpus_list{.id = "gpus",
                                    .title = "GPUs",
                                    .max_rows = 16,
                                    .max_bytes = 5'500,
                                    .columns = {{{"GPU"}, {"Model"}, {"Held", true}, {"Held by"}}}};
inline constexpr ListKind events_list{
    .id = "events",
    .title = "Last events",
    .max_rows = 12,
    .max_bytes = 4'500,
    .columns = {{{"Time (UTC)"}, {"Event"}, {"GPU"}, {"Process"}, {"Details"}}}};
inline constexpr ListKind out_of_memory_list{.id = "out-of-memory",
                                             .title = "Out of memory",
                                             .max_rows = 8,
                                             .max_bytes = 3'500,
                                             .columns = {{{"Time (UTC)"},
                                                          {"Refused", true},
                                                          {"Asked for", true},
                                                          {"GPU"},
                                                          {"Process"},
                                                          {"Verdict"},
                                                          {"Who holds the memory"}}}};
inline constexpr ListKind job_reports_list{
    .id = "job-reports",
    .title = "Job reports",
    .max_rows = 6,
    .max_bytes = 2'800,
    .columns = {{{"Ended (UTC)"}, {"What it used on this node"}}}};
inline constexpr ListKind probes_list{.id = "probes",
                                      .title = "Probes",
                                      .max_rows = 32,
                                      .max_bytes = 4'500,
                                      .columns = {{{"Probe"},
                                                   {"State"},
                                                   {"Attached to"},
                                                   {"Events/s", true},
                                                   {"Events", true},
                                                   {"Lost/s", true},
                                                   {"Lost", true},
                                                   {"Mode or reason"}}}};
inline constexpr ListKind allocations_list{
    .id = "allocations",
    .title = "Top allocations",
    .max_rows = 10,
    .max_bytes = 3'500,
    .columns = {{{"Allocated in"}, {"Holds", true}, {"Allocations", true}, {"Process"}}}};
inline constexpr ListKind slow_calls_list{
    .id = "slow-calls",
    .title = "Slow calls",
    .max_rows = 5,
    .max_bytes = 4'500,
    .columns = {
        {{"Ended (UTC)"}, {"Took", true}, {"Function"}, {"Process"}, {"Error"}, {"Called from"}}}};
inline constexpr ListKind libraries_list{
    .id = "libraries",
    .title = "Libraries",
    .max_rows = 15,
    .max_bytes = 3'000,
    .columns = {{{"File"}, {"Processes", true}, {"State"}, {"Build id"}}}};

inline constexpr std::array all_lists = {
    &processes_list,   &in_flight_list, &gpus_list,        &events_list,     &out_of_memory_list,
    &job_reports_list, &probes_list,    &allocations_list, &slow_calls_list, &libraries_list};

// The page is read over slow lines, on phones.
inline constexpr std::size_t max_page_bytes = 60'000;
// The head, headings, sentences, problems and links.
inline constexpr std::size_t max_bytes_beside_lists = 7'200;
static_assert(std::accumulate(all_lists.begin(), all_lists.end(), max_bytes_beside_lists,
                              [](std::size_t sum, const ListKind *one) {
                                  return sum + one->max_bytes;
                              }) <= max_page_bytes);

// Takes rows while there is room for them: give it the worst first.
class List {
public:
    explicit List(const ListKind &kind) : kind_(kind) {}

    // The cells of a row as HTML, one for each column; the first one names the row. False, and the
    // row is not shown, if there is no room for it.
    bool add(const std::vector<std::string> &cells);

    // The table, if there are rows, and a sentence on the others of `all`, which ends with `where`.
    [[nodiscard]] std::string html(std::uint64_t all, std::string_view where = "") const;

private:
    const ListKind &kind_;
    std::size_t shown_ = 0;
    bool is_full_ = false;
    std::string rows_;
};

}  // namespace gpusnoop::status
