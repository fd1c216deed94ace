#include "exporter/probes/functions/select/patterns.h"

#include <fnmatch.h>

#include <algorithm>
#include <tuple>

namespace gpusnoop::probes {

void FunctionMatcher::add(std::string_view text, bool is_glob) {
    const std::size_t special =
        is_glob ? std::min(text.find_first_of("*?[\\"), text.size()) : text.size();
    entries_.push_back({std::string(text.substr(0, special)), std::string(text.substr(special)),
                        entries_.size(), is_glob});
}

void FunctionMatcher::arrange() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry &a, const Entry &b) {
        return std::tie(a.literal, a.pattern) < std::tie(b.literal, b.pattern);
    });
}

std::optional<FunctionMatcher::Match> FunctionMatcher::find(std::string_view symbol) const {
    std::optional<Match> glob;
    std::string text;  // the symbol with the NUL that fnmatch needs
    auto first = entries_.begin();
    auto last = entries_.end();
    for (std::size_t depth = 0; first != last; ++depth) {
        // Entries whose literal ends here come first.
        for (; first != last && first->literal.size() == depth; ++first) {
            if (!first->is_glob) {
                if (depth == symbol.size()) {
                    return Match{first->pattern, true};
                }
                continue;
            }
            if (glob && glob->pattern < first->pattern) {
                continue;
            }
            if (text.empty()) {
                text = symbol;
            }
            if (::fnmatch(first->rest.c_str(), text.c_str() + depth, 0) == 0) {
                glob = Match{first->pattern, false};
            }
        }
        if (first == last || depth == symbol.size()) {
            break;
        }
        // As unsigned, the order of the strings.
        const auto letter = static_cast<unsigned char>(symbol[depth]);
        const auto at_depth = [depth](const Entry &entry) {
            return static_cast<unsigned char>(entry.literal[depth]);
        };
        // The names and patterns of a library often have a common prefix: this avoids the search.
        if (at_depth(*first) == letter && at_depth(*(last - 1)) == letter) {
            continue;
        }
        first = std::partition_point(first, last,
                                     [&](const Entry &entry) { return at_depth(entry) < letter; });
        last = std::partition_point(first, last,
                                    [&](const Entry &entry) { return at_depth(entry) <= letter; });
    }
    return glob;
}

}  // namespace gpusnoop::probes
