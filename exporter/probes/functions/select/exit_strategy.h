// How the end of a call can be seen without harm to the process.
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
    exits,  // probes on the instructions by which the function is left
    none,   // calls are counted at their entry only
};

// Whether a return probe on the function of this symbol is harmless. It puts another address in
// the place of the return address, and so must not be used where an exception may pass through,
// where a function looks at its return address, returns twice or on another stack, or was not
// called at all. Of a C function with another name, none of this is expected.
[[nodiscard]] bool allows_return_probe(std::string_view symbol);

// Whether it is a part of a function, which is jumped to or called for it: a name that ends in
// .cold, .cold.<n> or .part.<n>.
[[nodiscard]] bool is_part(std::string_view symbol);

struct Ending {
    ExitStrategy kind = ExitStrategy::none;
    std::vector<symbols::FunctionExit>
        exits{};                  // at file offsets, ascending; ExitStrategy::exits only
    bool jumps_to_entry = false;  // the probe at the entry runs again within one call
    std::string problem{};        // why it is none
};

struct ExitQuestion {
    symbols::ListedFunction function;
    ebpf::Endings endings = ebpf::Endings::automatic;  // which are allowed
};

// For each of `functions` of `file`, which was opened with `fd`.
[[nodiscard]] std::vector<Ending> find_exit_strategies(const symbols::ElfFile &file, int fd,
                                                       std::span<const ExitQuestion> functions);

// Whether the file is made with Go. Goroutines change threads and stacks within a call, so that
// there the end of a call is not seen at all.
[[nodiscard]] bool is_go(const symbols::ElfFile &file);

}  // namespace gpusnoop::probes
