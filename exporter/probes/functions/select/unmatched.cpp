#include "exporter/probes/functions/select/unmatched.h"

#include <algorithm>
#include <iterator>

#include "exporter/base/glob.h"
#include "exporter/base/text/words.h"

namespace gpusnoop::probes {

namespace {

// The library that a glob names: libone.so* and libone-*.so* both name libone.
std::string library_of(const std::string &glob) {
    const std::string_view name = last_part(glob);
    const std::string_view stem = name.substr(0, name.find_first_of(".-*?["));
    return std::string(stem.empty() ? name : stem);
}

}  // namespace

std::vector<std::string> UnmatchedFunctions::note(const std::string &name,
                                                  const FunctionGroup &group, std::string_view file,
                                                  const std::vector<std::string> &unmatched) {
    std::set<std::string> libraries;
    Seen &seen = groups_[name];
    for (const std::string &glob : group.libraries) {
        libraries.insert(library_of(glob));
        if (matches_glob(std::string(last_part(glob)), file)) {
            seen.libraries.insert(library_of(glob));
        }
    }
    if (libraries.size() < 2) {
        return unmatched;
    }
    if (!seen.missing) {
        seen.missing.emplace(unmatched.begin(), unmatched.end());
    }
    std::erase_if(*seen.missing, [&](const std::string &function) {
        return std::ranges::find(unmatched, function) == unmatched.end();
    });
    std::vector<std::string> missing;
    if (seen.libraries.size() == libraries.size()) {
        std::ranges::copy_if(unmatched, std::back_inserter(missing),
                             [&](const std::string &one) { return seen.missing->contains(one); });
        seen.missing->clear();
    }
    return missing;
}

}  // namespace gpusnoop::probes
