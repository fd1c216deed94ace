// A group of the configuration that wants functions of a file.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/functions/select/patterns.h"
#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

// Whether the group wants functions of the file of this name, `path` as the process sees it.
[[nodiscard]] bool applies(const FunctionGroup &group, const std::string &name,
                           const std::string &path);

// What a function of this symbol is shown as: valid UTF-8, at most max_function_name bytes.
[[nodiscard]] std::string shown_name(const FunctionPattern &pattern, std::string_view symbol);

// Borrows both.
class GroupMatcher {
public:
    GroupMatcher(const std::string &name, const FunctionGroup &group);

    // The pattern that the symbol belongs to, also if the group leaves it out again.
    [[nodiscard]] std::optional<FunctionMatcher::Match> find(std::string_view symbol) const;
    [[nodiscard]] bool excludes(std::string_view symbol) const;

    void note_match(std::size_t pattern) { matched_[pattern] = true; }
    // The symbols and globs of which no match was noted.
    [[nodiscard]] std::vector<std::string> unmatched() const;

    // The same for each call with this pattern.
    [[nodiscard]] std::shared_ptr<const FunctionOptions> options(std::size_t pattern);

    [[nodiscard]] const std::string &name() const { return *name_; }
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
