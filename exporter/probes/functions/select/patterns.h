// The symbols and globs of a group of functions, arranged so that each of the several 100,000
// symbols of a large library is compared with only a few of what may be 10,000 patterns.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::probes {

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

}  // namespace gpusnoop::probes
