#include "exporter/probes/functions/select/group.h"

#include <fnmatch.h>

#include <algorithm>
#include <tuple>

#include "exporter/base/glob.h"
#include "exporter/base/text/text.h"
#include "exporter/config/globs.h"
#include "exporter/probes/functions/select/exit_strategy.h"
#include "exporter/symbols/demangle/function_name.h"

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

bool applies(const FunctionGroup &group, const std::string &name, const std::string &path) {
    return group.enabled && std::any_of(group.libraries.begin(), group.libraries.end(),
                                        [&](const std::string &glob) {
                                            const auto &text = glob.starts_with('/') ? path : name;
                                            return matches_glob(glob, text);
                                        });
}

std::string shown_name(const FunctionPattern &pattern, std::string_view symbol) {
    if (!pattern.name.empty()) {
        return to_valid_utf8(pattern.name, max_function_name);
    }
    // Only the end of a longer symbol is shown.
    constexpr std::size_t max_symbol = max_symbol_bytes;
    return symbols::shortened_name(symbol.starts_with("_Z") ? symbols::function_name(symbol)
                                                            : to_valid_utf8(symbol, max_symbol),
                                   max_function_name);
}

GroupMatcher::GroupMatcher(const std::string &name, const FunctionGroup &group)
    : name_(&name),
      group_(&group),
      options_(group.functions.size()),
      matched_(group.functions.size()) {
    for (const FunctionPattern &pattern : group.functions) {
        patterns_.add(pattern.symbol, pattern.is_glob);
    }
    for (const std::string &text : group.exclude) {
        excluded_.add(text, config::is_glob(text));
    }
    patterns_.arrange();
    excluded_.arrange();
}

std::optional<FunctionMatcher::Match> GroupMatcher::find(std::string_view symbol) const {
    const auto match = symbol.empty() ? std::nullopt : patterns_.find(symbol);
    // A part of a function is not wanted, unless the pattern names it exactly.
    return match && !match->exact && is_part(symbol) ? std::nullopt : match;
}

bool GroupMatcher::excludes(std::string_view symbol) const {
    return excluded_.find(symbol).has_value();
}

std::vector<std::string> GroupMatcher::unmatched() const {
    std::vector<std::string> symbols;
    for (std::size_t i = 0; i < matched_.size(); ++i) {
        if (!matched_[i]) {
            symbols.push_back(pattern(i).symbol);
        }
    }
    return symbols;
}

std::shared_ptr<const FunctionOptions> GroupMatcher::options(std::size_t pattern) {
    if (!options_[pattern]) {
        options_[pattern] = std::make_shared<const FunctionOptions>(
            options_of(*group_, group_->functions[pattern]));
    }
    return options_[pattern];
}

}  // namespace gpusnoop::probes
