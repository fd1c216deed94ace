// Finds configured functions that no library has, for groups that want several libraries.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

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
