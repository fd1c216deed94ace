// Which configured functions no library has, of groups that want several libraries.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

// A function of one library of a group is not missing because another one has it not: it is once
// there was a library for each of the group's globs. For one thread.
class UnmatchedFunctions {
public:
    // The file of this name is wanted by the group, and does not have the functions of `unmatched`.
    // Returns those to complain about now, in their order; each once.
    [[nodiscard]] std::vector<std::string> note(const std::string &name, const FunctionGroup &group,
                                                std::string_view file,
                                                const std::vector<std::string> &unmatched);
    // The configuration is another one.
    void forget() { groups_.clear(); }

private:
    struct Seen {
        std::set<std::string> libraries;               // globs that a file was there for
        std::optional<std::set<std::string>> missing;  // in all of them
    };
    std::map<std::string, Seen> groups_;
};

}  // namespace gpusnoop::probes
