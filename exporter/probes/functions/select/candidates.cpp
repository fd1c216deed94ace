#include "exporter/probes/functions/select/candidates.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <tuple>

#include "exporter/base/text/text.h"
#include "exporter/config/document.h"
#include "exporter/probes/functions/select/exit_strategy.h"

namespace gpusnoop::probes {
namespace {

// With more names there are too many functions, whatever the limit: a function has few names, each
// at most once in both symbol tables.
constexpr std::size_t max_wanted_names = 100'000;

// name@@VERSION, as in .symtab
std::string_view without_version(std::string_view symbol) {
    return symbol.substr(0, symbol.find('@'));
}

// Of those at one place, the first one is shown.
auto order_of(const Candidate &candidate) {
    return std::tuple(candidate.function->file_offset, candidate.group, !candidate.exact,
                      !candidate.function->global, candidate.symbol);
}

class Finder {
public:
    Finder(const std::string &name, std::vector<GroupMatcher> &groups, std::size_t max_functions)
        : name_(name), groups_(groups), max_functions_(max_functions) {}

    Result<Candidates> run(const symbols::ElfFile &file) {
        auto listed =
            file.list_functions([this](std::string_view name) { return is_wanted(name); });
        if (names_ > max_wanted_names) {
            return tl::unexpected(too_many("too many", name_counts_));
        }
        if (!listed) {
            return fail_in(name_, listed.error());
        }
        found_.listed = std::move(*listed);
        for (const symbols::ListedFunction &function : found_.listed) {
            add_candidate(function);
        }
        choose_symbols();
        if (found_.chosen.size() > max_functions_) {
            return tl::unexpected(
                too_many(std::to_string(found_.chosen.size()), candidate_counts()));
        }
        return std::move(found_);
    }

private:
    using Counts = std::map<std::pair<std::size_t, std::size_t>, std::size_t>;  // by group, pattern

    // For each name of the file. Over the limit no name is wanted, as the selection has failed
    // then.
    bool is_wanted(std::string_view name) {
        bool wanted = false;
        for (std::size_t i = 0; i < groups_.size() && names_ <= max_wanted_names; ++i) {
            if (const auto match = groups_[i].find(without_version(name))) {
                ++name_counts_[{i, match->pattern}];
                wanted = true;
            }
        }
        names_ += wanted ? 1 : 0;
        return wanted && names_ <= max_wanted_names;
    }

    void add_candidate(const symbols::ListedFunction &function) {
        Candidate candidate;
        candidate.function = &function;
        candidate.symbol = without_version(function.name);
        candidate.strict_symbol = candidate.symbol;
        bool is_first = true;
        for (std::size_t i = 0; i < groups_.size(); ++i) {
            const auto match = groups_[i].find(candidate.symbol);
            if (!match) {
                continue;
            }
            groups_[i].note_match(match->pattern);
            if (groups_[i].excludes(candidate.symbol)) {
                continue;
            }
            if (is_first) {
                candidate.group = i;
                candidate.pattern = match->pattern;
                candidate.exact = match->exact;
                is_first = false;
            } else if (!candidate.other_group) {
                candidate.other_group = i;
            }
        }
        if (is_first) {
            return;
        }
        if (function.probeable) {
            found_.chosen.push_back(candidate);
            return;
        }
        found_.not_probeable++;
        found_.problems.add(
            name_ + ": " +
            shown_name(groups_[candidate.group].pattern(candidate.pattern), candidate.symbol) +
            " picks a function when it is loaded (IFUNC), and has no calls to "
            "count: name the functions that it picks from");
    }

    // Leaves one candidate for each place.
    void choose_symbols() {
        std::sort(found_.chosen.begin(), found_.chosen.end(),
                  [](const Candidate &a, const Candidate &b) { return order_of(a) < order_of(b); });
        std::vector<Candidate> chosen;
        for (const Candidate &candidate : found_.chosen) {
            if (chosen.empty() ||
                chosen.back().function->file_offset != candidate.function->file_offset) {
                chosen.push_back(candidate);
                continue;
            }
            Candidate &first = chosen.back();
            if (candidate.group != first.group && !first.other_group) {
                first.other_group = candidate.group;
            }
            if (!allows_return_probe(candidate.symbol)) {
                first.strict_symbol = candidate.symbol;
            }
        }
        found_.chosen = std::move(chosen);
    }

    [[nodiscard]] Error too_many(const std::string &count, const Counts &counts) const {
        const auto most =
            std::max_element(counts.begin(), counts.end(),
                             [](const auto &a, const auto &b) { return a.second < b.second; });
        const GroupMatcher &group = groups_[most->first.first];
        const FunctionPattern &pattern = group.pattern(most->first.second);
        return {name_ + ": " + count + " of its functions are wanted, of at most " +
                    std::to_string(max_functions_) + ", most of them by " +
                    (pattern.is_glob ? "the glob " : "the symbol ") + in_quotes(pattern.symbol) +
                    " of the group " + group.name() +
                    (pattern.line.number == 0 ? ""
                                              : " on line " + std::to_string(pattern.line.number) +
                                                    " of the configuration") +
                    ": write a longer glob, or leave functions out with exclude",
                EFBIG};
    }

    [[nodiscard]] Counts candidate_counts() const {
        Counts counts;
        for (const Candidate &candidate : found_.chosen) {
            ++counts[{candidate.group, candidate.pattern}];
        }
        return counts;
    }

    const std::string &name_;
    std::vector<GroupMatcher> &groups_;
    std::size_t max_functions_;
    std::size_t names_ = 0;  // that are wanted
    Counts name_counts_;
    Candidates found_;
};

}  // namespace

Result<Candidates> find_candidates(const symbols::ElfFile &file, const std::string &name,
                                   std::vector<GroupMatcher> &groups, std::size_t max_functions) {
    return Finder(name, groups, max_functions).run(file);
}

}  // namespace gpusnoop::probes
