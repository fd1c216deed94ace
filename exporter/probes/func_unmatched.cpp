#include "exporter/probes/func_unmatched.h"

#include <fnmatch.h>

#include <algorithm>
#include <iterator>

namespace gpusnoop::probes {

std::vector<std::string> UnmatchedFunctions::note(const std::string &name,
                                                  const config::FunctionGroup &group,
                                                  std::string_view file,
                                                  const std::vector<std::string> &unmatched) {
    if (group.libraries.size() < 2) {
        return unmatched;
    }
    Seen &seen = groups_[name];
    const std::string file_name(file);
    for (const std::string &glob : group.libraries) {
        const std::string last = glob.substr(glob.rfind('/') + 1);  // npos + 1 is 0
        if (::fnmatch(last.c_str(), file_name.c_str(), 0) == 0) {
            seen.libraries.insert(glob);
        }
    }
    if (!seen.missing) {
        seen.missing.emplace(unmatched.begin(), unmatched.end());
    }
    std::erase_if(*seen.missing, [&](const std::string &function) {
        return std::ranges::find(unmatched, function) == unmatched.end();
    });
    std::vector<std::string> missing;
    if (seen.libraries.size() == group.libraries.size()) {
        std::ranges::copy_if(unmatched, std::back_inserter(missing),
                             [&](const std::string &one) { return seen.missing->contains(one); });
        seen.missing->clear();
    }
    return missing;
}

}  // namespace gpusnoop::probes
