// The names of system calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop {

enum class Machine { x86_64, arm64 };

// The machine that this program is compiled for.
[[nodiscard]] Machine this_machine();

// The name of a system call; empty for a number that had no name when the table was made.
[[nodiscard]] std::optional<std::string_view> syscall_name(std::uint32_t number,
                                                           Machine machine = this_machine());

// The number of a system call; empty if the machine has no call of that name.
[[nodiscard]] std::optional<std::uint32_t> syscall_number(std::string_view name,
                                                          Machine machine = this_machine());

// Whether any of the machines has it.
[[nodiscard]] bool is_syscall(std::string_view name);

// The groups that a configuration can name, and the system calls of each.
[[nodiscard]] const std::vector<std::string> &syscall_groups();
[[nodiscard]] std::vector<std::string_view> syscalls_of_group(std::string_view group);

// The name of an error that a system call returned, as a positive number: "ENOENT". Numbers that
// never reach the program, such as restarted calls' after a signal handler, have the kernel's own
// names. Numbers without a name are "unknown".
[[nodiscard]] std::string_view errno_name(std::uint32_t number);

}  // namespace gpusnoop
