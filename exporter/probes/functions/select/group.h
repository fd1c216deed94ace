// Matches a group of the configuration with the functions of a file.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

// The symbols and globs of a group of functions, arranged so that each of the several 100,000
// symbols of a large library is compared with only a few of what may be 10,000 patterns.
class FunctionMatcher {
public:
    struct Match {
        std::size_t pattern;  // its number, in the order in which they were added
        bool exact;           // the pattern is the symbol itself
    };

    // `text` is a symbol, or a glob for fnmatch(3) without flags.
    void add(std::string_view text, bool is_glob);

    // Call it after the last add().
    void arrange();

    // The pattern that `symbol` belongs to: the one that is this symbol, else the first glob that
    // matches it.
    [[nodiscard]] std::optional<Match> find(std::string_view symbol) const;

private:
    struct Entry {
        std::string literal;  // of a glob: the text before its first special character
        std::string rest;     // of a glob: the text from there on
        std::size_t pattern;
        bool is_glob;
    };

    // Sorted by literal. A search works as in a trie: after each letter of the symbol, the
    // remaining entries are the range whose next letter is the symbol's.
    std::vector<Entry> entries_;
};

// Does the group want functions of the file of this name? `path` is as the process sees it.
[[nodiscard]] bool applies(const FunctionGroup &group, const std::string &name,
                           const std::string &path);

// The shown name of a function with this symbol: valid UTF-8, at most max_function_name bytes.
[[nodiscard]] std::string shown_name(const FunctionPattern &pattern, std::string_view symbol);

// Borrows both.
class GroupMatcher {
public:
    GroupMatcher(const std::string &name, const FunctionGroup &group);

    // The pattern that the symbol belongs to, even if the group excludes the symbol.
    [[nodiscard]] std::optional<FunctionMatcher::Match> find(std::string_view symbol) const;
    [[nodiscard]] bool excludes(std::string_view symbol) const;

    void note_match(std::size_t pattern) { matched_[pattern] = true; }
    // The symbols and globs without a noted match.
    [[nodiscard]] std::vector<std::string> unmatched() const;

    // Returns the same object for each call with this pattern.
    [[nodiscard]] std::shared_ptr<const FunctionOptions> options(std::size_t pattern);

    [[nodiscard]] std::shared_ptr<const FunctionOptions> options(const UsdtCall &call) const {
        return std::make_shared<const FunctionOptions>(options_of(*group_, call));
    }

    [[nodiscard]] const std::string &name() const { return *name_; }
    [[nodiscard]] const std::vector<UsdtCall> &usdt() const { return group_->usdt; }
    [[nodiscard]] const FunctionPattern &pattern(std::size_t number) const {
        return group_->functions[number];
    }

private:
    const std::string *name_;
    const FunctionGroup *group_;
    FunctionMatcher patterns_;
    FunctionMatcher excluded_;
    std::vector<std::shared_ptr<const FunctionOptions>> options_;  // by pattern, once asked
    std::vector<bool> matched_;                                    // by pattern
};

}  // namespace gpusnoop::probes
