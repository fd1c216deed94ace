// The arguments of a process, as the kernel keeps them, and the script that they name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::processes {

// What was read of the arguments, which lie one behind the other and end with a NUL each.
struct ArgumentBytes {
    std::string_view head;    // the first of them
    std::string_view rest;    // those from `rest_at` on, if the head ends in an argument
    std::size_t rest_at = 0;  // may lie in the head, or behind it
    std::size_t total = 0;    // as many as there are
};

// The arguments up to the first one whose beginning or end was not read. One whose middle was not
// read lacks it: its beginning and its end are there.
[[nodiscard]] std::vector<std::string> split_arguments(const ArgumentBytes &bytes);

// The name of the script, module, class or archive that an interpreter runs, without its directory:
// "train.py" of `python3 -u /src/train.py`. Empty if the process is not a known interpreter, or
// runs code from its command line or its input. `comm` helps if the first argument is no name.
// Untrusted bytes.
[[nodiscard]] std::string script_of(std::span<const std::string> arguments, std::string_view comm);

}  // namespace gpusnoop::processes
