// Finds functions of groups in files that no group names.
#pragma once

#include <map>
#include <optional>
#include <set>
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

// Finds configured functions that no library has, for groups that want several libraries.
// A function of one library of a group is not missing because another library lacks it. It is
// missing once every library that the group's globs name was seen. For one thread.
class UnmatchedFunctions {
public:
    // The group wants the file of this name, which does not have the functions of `unmatched`.
    // Returns the functions to report now, in their order; each once.
    [[nodiscard]] std::vector<std::string> note(const std::string &name, const FunctionGroup &group,
                                                std::string_view file,
                                                const std::vector<std::string> &unmatched);
    // Call this when the configuration has changed.
    void forget() { groups_.clear(); }

private:
    struct Seen {
        std::set<std::string> libraries;               // that a file has matched, without endings
        std::optional<std::set<std::string>> missing;  // in all of these files
    };
    std::map<std::string, Seen> groups_;
};

}  // namespace gpusnoop::probes
