// What the sections of the page at / are made of, as HTML. Texts are escaped here, unless they are
// called `html`.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/text/text.h"
#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::status {

// The lists of the page at /: what each is called, its columns, and how much of it is shown. The
// rest is counted in a sentence.
//
// To add one: its kind here and in `all_lists`, its section in sections.h, and its place in
// status_page.cpp.

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

// Bytes of a text that are shown.
inline constexpr std::size_t max_reason_bytes = 320;
inline constexpr std::size_t max_path_bytes = 160;
inline constexpr std::size_t max_function_bytes = 100;
inline constexpr std::size_t max_name_bytes = 64;
inline constexpr std::size_t max_frames = 6;  // of a stack

inline constexpr std::string_view docs_address =
    "https://github.com/gpusnoop/gpusnoop_exporter/blob/main/docs";

// The text, of at most so many bytes when it is escaped: whatever programs are called, their rows
// are not long.
[[nodiscard]] std::string text_html(std::string_view text, std::size_t max_bytes = max_name_bytes);
[[nodiscard]] std::string heading(const ListKind &list);
[[nodiscard]] std::string dim(const std::string &html);
[[nodiscard]] std::string sentence(const std::string &html);
// How many items there are besides the shown ones; empty if there are none.
[[nodiscard]] std::string more(std::uint64_t all, std::uint64_t shown, std::string_view where = "");
// "1 process", "2 processes": `plural` is the word for every count but 1.
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view one,
                                  std::string_view plural);

[[nodiscard]] std::string rate_html(double per_second);
// A time of CLOCK_REALTIME, to the second.
[[nodiscard]] std::string time_html(std::chrono::nanoseconds since_epoch);
[[nodiscard]] std::string code(std::string_view text, std::size_t max_bytes = max_path_bytes);
// What counts by these names, as "elf 2, ring_full 100".
[[nodiscard]] std::string by_name(const std::map<std::string, std::uint64_t> &counts);
// What to do if an alert fires, behind these words.
[[nodiscard]] std::string runbook_html(std::string_view alert, const std::string &html);
// Links that take a profile and show it as a flame graph: of one process, or of all.
[[nodiscard]] std::string profile_links_html(std::optional<std::uint32_t> pid = std::nullopt);
// A line of these amounts, the oldest first, and by how much the last is more than the first.
[[nodiscard]] std::string growth_html(const std::vector<std::uint64_t> &bytes);
// Its name, script and id; in `process_html` also whose it is.
[[nodiscard]] std::string short_process_html(const processes::ProcessNames &names,
                                             std::uint32_t pid);
[[nodiscard]] std::string process_html(const processes::ProcessNames &names, std::uint32_t pid);
// The functions, once it is opened. The id is for the script, which keeps open what is.
[[nodiscard]] std::string stack_html(const std::vector<symbols::Frame> &stack,
                                     const std::string &id);

}  // namespace gpusnoop::status
