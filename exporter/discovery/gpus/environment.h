// The environment of a process, as untrusted bytes: NAME=value and a NUL each.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace gpusnoop::discovery {

// A longer one is not used.
inline constexpr std::size_t max_environment_bytes = 1024 * 1024;

// The first variable of this name, as getenv() has it. One without a NUL at its end may be cut
// short.
[[nodiscard]] std::optional<std::string_view> variable(std::string_view environment,
                                                       std::string_view name);

}  // namespace gpusnoop::discovery
