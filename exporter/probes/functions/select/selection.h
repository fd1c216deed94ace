// Selects the functions of a library that the groups of the configuration want, and finds how each
// can be measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/select/exit_strategy.h"
#include "exporter/probes/functions/setting_groups.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/exits/entry_probe.h"
#include "exporter/symbols/exits/function_exits.h"

namespace gpusnoop::probes {

// One address where a probe is attached. Several with the same group and name are shown as one
// function: overloads, constructors, all matches of a glob with a name. Their options may differ.
struct SelectedFunction {
    std::string group;
    std::string name;    // its shown name: valid UTF-8, at most max_function_name bytes
    std::string symbol;  // as the file has it, without a version
    std::shared_ptr<const FunctionOptions> options;  // never null; one for each pattern
    std::uint64_t entry = 0;                         // file offset
    symbols::EntryProbe entry_probe{};               // at `entry`, or cheaper right behind it
    ExitStrategy ending = ExitStrategy::none;
    std::vector<symbols::FunctionExit>
        exits{};                  // at file offsets, ascending; ExitStrategy::exits only
    bool jumps_to_entry = false;  // the probe at the entry runs again within one call
    // Of what is between two USDT probes, and no function: where it begins and ends. `entry` is the
    // first beginning.
    std::vector<symbols::UsdtPlace> begins{};
    std::vector<symbols::UsdtPlace> ends{};
};

struct Selection {
    std::vector<SelectedFunction> functions{};  // by group, name and entry; no entry twice
    // For each group that wants this file: its symbols and globs without a match in it, in the
    // order of the configuration, then its USDT probes, as provider:probe.
    std::map<std::string, std::vector<std::string>> unmatched{};
    // Wanted symbols that select a function when the program is loaded (IFUNC), and are none
    // themselves.
    std::size_t not_probeable = 0;
    bool lacks_probes = false;  // wanted USDT probes are not in the file, or cannot be used
    // Sentences that begin with the name of the file: the omitted functions, the functions that are
    // counted at their entry only, and the reasons.
    std::vector<std::string> problems{};
};

// Does an enabled group want functions of the file of this name? `path` is as the process sees it.
[[nodiscard]] bool wants(const FunctionGroups &groups, std::string_view name,
                         std::string_view path);

// The functions of `file`, which was opened with `fd`, that `groups` want. A function that several
// groups want belongs to the first of them, by name. Of several symbols at one place, it is shown
// as the one that the group names exactly, else a global one, else the first in the alphabet.
// Fails with a sentence that begins with the file's name if the file cannot be read, or if more
// than `max_functions` are wanted.
[[nodiscard]] Result<Selection> select_functions(const symbols::ElfFile &file, int fd,
                                                 std::string_view file_name, std::string_view path,
                                                 const FunctionGroups &groups,
                                                 std::size_t max_functions);

}  // namespace gpusnoop::probes
