#include "exporter/probes/functions/select/unmatched.h"

#include <algorithm>
#include <iterator>

#include "exporter/base/glob.h"
#include "exporter/base/words.h"

namespace gpusnoop::probes {

std::vector<std::string> UnmatchedFunctions::note(const std::string &name,
                                                  const FunctionGroup &group, std::string_view file,
                                                  const std::vector<std::string> &unmatched) {
    if (group.libraries.size() < 2) {
        return unmatched;
    }
    Seen &seen = groups_[name];
    for (const std::string &glob : group.libraries) {
        if (matches_glob(std::string(last_part(glob)), file)) {
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
