// How to see the end of a call without harm to the process.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/functions/setting_groups.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/exits/function_exits.h"

namespace gpusnoop::probes {

enum class ExitStrategy : std::uint8_t {
    return_probe,
    exits,  // probes on the instructions that leave the function
    none,   // calls are counted at their entry only
};

// Is a return probe on the function of this symbol harmless? It replaces the return address. So it
// must not be used if an exception may pass through the function, or if the function reads its
// return address, returns twice or on another stack, or was not called at all. A C function with
// another name is not expected to do any of this.
[[nodiscard]] bool allows_return_probe(std::string_view symbol);

// Is it a part of a function, to which that jumps or which it calls? Then the name ends in .cold,
// .cold.<n> or .part.<n>.
[[nodiscard]] bool is_part(std::string_view symbol);

struct Ending {
    ExitStrategy kind = ExitStrategy::none;
    std::vector<symbols::FunctionExit>
        exits{};                  // at file offsets, ascending; ExitStrategy::exits only
    bool jumps_to_entry = false;  // the probe at the entry runs again within one call
    std::string problem{};        // the reason for `none`
};

struct ExitQuestion {
    symbols::ListedFunction function;
    ebpf::Endings endings = ebpf::Endings::automatic;  // the allowed ones
};

// For each of `functions` of `file`, which was opened with `fd`.
[[nodiscard]] std::vector<Ending> find_exit_strategies(const symbols::ElfFile &file, int fd,
                                                       std::span<const ExitQuestion> functions);

// Does the file have code of Rust, or of another language whose functions have C names and unwind
// the stack by themselves? C++ is not one of these: the functions that the libraries of CUDA export
// are extern "C" in C++, and throw nothing.
[[nodiscard]] bool has_unwinding_functions(const symbols::ElfFile &file);

// Is the file made with Go? Goroutines change threads and stacks within a call, so the end of a
// call cannot be seen.
[[nodiscard]] bool is_go(const symbols::ElfFile &file);

}  // namespace gpusnoop::probes
