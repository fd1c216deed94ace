// What the sections of the page at / are made of, as HTML. Texts are escaped here, unless they are
// called `html`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/processes/process_names.h"

namespace gpusnoop::status {

inline constexpr std::size_t max_path_bytes = 512;

[[nodiscard]] std::string heading(std::string_view id, std::string_view title);
[[nodiscard]] std::string sentence(const std::string &html);
// How many items there are besides the shown ones; empty if there are none.
[[nodiscard]] std::string more(std::uint64_t all, std::uint64_t shown,
                               const std::string &where = "");
[[nodiscard]] std::string code(std::string_view text, std::size_t max_bytes = max_path_bytes);
[[nodiscard]] std::string container_html(const std::string &container);
// Links that take a profile and show it as a flame graph: of one process, or of all.
[[nodiscard]] std::string profile_links_html(std::optional<std::uint32_t> pid = std::nullopt);
// Its name, script and id, and whose it is.
[[nodiscard]] std::string process_html(const processes::ProcessNames &names, std::uint32_t pid);

}  // namespace gpusnoop::status
