// The functions of a file that groups of the configuration want, one for each place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/select/group.h"
#include "exporter/probes/functions/select/problems.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// A symbol, and the group that it counts for. Borrows the function.
struct Candidate {
    const symbols::ListedFunction *function = nullptr;
    std::string_view symbol;         // without version
    std::string_view strict_symbol;  // at its address, one that allows no return probe, if any
    std::size_t group = 0;
    std::size_t pattern = 0;
    bool exact = false;
    std::optional<std::size_t> other_group{};  // another group that wants it
};

struct Candidates {
    std::vector<symbols::ListedFunction> listed{};  // those below borrow them
    std::vector<Candidate> chosen{};                // no place twice
    std::size_t not_probeable = 0;                  // wanted symbols that pick a function
    Problems problems{};                            // of these
};

// Notes in the groups which of their patterns match. Fails if the file, which sentences call
// `name`, cannot be read, and if the groups want more than `max_functions`.
[[nodiscard]] Result<Candidates> find_candidates(const symbols::ElfFile &file,
                                                 const std::string &name,
                                                 std::vector<GroupMatcher> &groups,
                                                 std::size_t max_functions);

}  // namespace gpusnoop::probes
