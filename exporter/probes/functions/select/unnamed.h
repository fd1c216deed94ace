// Finds functions of groups in files that no group names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/setting_groups.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// A group that has functions of the file, though it does not name the file.
struct UnnamedExports {
    std::string group;
    std::string function;     // the first that it names exactly, and that the file exports
    bool is_counted = false;  // because the group has match_exports
    bool operator==(const UnnamedExports &) const = default;
};

// Reads the file, with limits for a file of which little is expected. Empty for a file that a group
// names, and for the inner libraries of one (libcudnn_ops.so of libcudnn.so), whose calls would
// count twice.
[[nodiscard]] Result<std::vector<UnnamedExports>> unnamed_exports(int fd, std::string_view name,
                                                                  std::string_view path,
                                                                  const FunctionGroups &groups);

// Whether the group wants functions of the file because the file exports them (match_exports).
[[nodiscard]] bool matches_exports(const FunctionGroup &group, const symbols::ElfFile &file,
                                   std::string_view name);
// The same for any of the groups, with the limits of unnamed_exports().
[[nodiscard]] bool matches_exports(const FunctionGroups &groups, int fd, std::string_view name);

// What to do about it, for the log: a group that does not count them.
[[nodiscard]] std::string problem_of(const std::vector<UnnamedExports> &exports);

}  // namespace gpusnoop::probes
