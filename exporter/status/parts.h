// What the sections of the page at / are made of, as HTML. Texts are escaped here, unless they are
// called `html`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/text/markup.h"
#include "exporter/processes/process_names.h"
#include "exporter/status/lists.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::status {

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
