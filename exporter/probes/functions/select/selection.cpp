#include "exporter/probes/functions/select/selection.h"

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/probes/functions/select/candidates.h"
#include "exporter/probes/functions/select/group.h"
#include "exporter/probes/functions/select/unnamed.h"

namespace gpusnoop::probes {
namespace {

class Selector {
public:
    Selector(const symbols::ElfFile &file, int fd, std::string_view file_name,
             std::vector<GroupMatcher> groups)
        : file_(file), fd_(fd), name_(to_valid_utf8(file_name, 255)), groups_(std::move(groups)) {}

    Result<Selection> run(std::size_t max_functions) {
        auto found = find_candidates(file_, name_, groups_, max_functions);
        if (!found) {
            return tl::unexpected(found.error());
        }
        candidates_ = std::move(*found);
        selection_.not_probeable = candidates_.not_probeable;
        for (const Candidate &candidate : candidates_.chosen) {
            add_function(candidate);
        }
        find_exit_strategies();
        find_entry_probes();
        for (const GroupMatcher &group : groups_) {
            if (auto symbols = group.unmatched(); !symbols.empty()) {
                selection_.unmatched.emplace(group.name(), std::move(symbols));
            }
        }
        add_usdt_calls();
        if (selection_.functions.size() > max_functions) {
            return fail(
                name_ + ": more than the " + std::to_string(max_functions) +
                    " functions of max_functions are wanted, with those between USDT probes",
                EFBIG);
        }
        candidates_.problems.move_to(
            selection_.problems, name_,
            " more of the wanted symbols pick a function when they are loaded, "
            "and have no calls to count");
        shared_.move_to(selection_.problems, name_, " more functions are wanted by several groups");
        entry_only_.move_to(selection_.problems, name_,
                            " more functions have calls that are counted at entry only");
        std::sort(selection_.functions.begin(), selection_.functions.end(),
                  [](const auto &a, const auto &b) {
                      return std::tie(a.group, a.name, a.entry) <
                             std::tie(b.group, b.name, b.entry);
                  });
        return std::move(selection_);
    }

private:
    void add_function(const Candidate &candidate) {
        GroupMatcher &group = groups_[candidate.group];
        SelectedFunction function;
        function.group = group.name();
        function.name = shown_name(group.pattern(candidate.pattern), candidate.symbol);
        function.symbol = candidate.symbol;
        function.options = group.options(candidate.pattern);
        function.entry = candidate.function->file_offset;
        function.entry_probe = {function.entry, false};
        if (candidate.other_group) {
            shared_.add(name_ + ": " + function.name + " is wanted by the groups " + group.name() +
                        " and " + groups_[*candidate.other_group].name() + ", and counts for " +
                        group.name());
        }
        selection_.functions.push_back(std::move(function));
    }

    // Fills in the functions, which are in the order of the candidates.
    void find_exit_strategies() {
        std::vector<ExitQuestion> functions;
        std::vector<std::size_t> places;
        for (std::size_t i = 0; i < candidates_.chosen.size(); ++i) {
            const FunctionOptions &options = *selection_.functions[i].options;
            if (!options.entry_only) {
                // A name from another file does not show that no exception passes through the
                // function.
                const bool is_told_by_another = candidates_.chosen[i].function->in_debug_file;
                const bool is_exits =
                    is_told_by_another && options.endings == ebpf::Endings::automatic;
                functions.push_back({*candidates_.chosen[i].function,
                                     is_exits ? ebpf::Endings::exits : options.endings});
                functions.back().function.name = candidates_.chosen[i].strict_symbol;
                places.push_back(i);
            }
        }
        if (!functions.empty() && is_go(file_)) {
            selection_.problems.push_back(
                name_ + ": it is made with Go, so calls are counted at entry only");
            return;
        }
        symbols::ElfFile file = file_;
        file.use_debug_file(nullptr);
        auto endings = probes::find_exit_strategies(file, fd_, functions);
        for (std::size_t i = 0; i < endings.size(); ++i) {
            SelectedFunction &function = selection_.functions[places[i]];
            function.ending = endings[i].kind;
            function.exits = std::move(endings[i].exits);
            function.jumps_to_entry = endings[i].jumps_to_entry;
            if (!endings[i].problem.empty()) {
                entry_only_.add(name_ + ": " + function.name + ": " + endings[i].problem +
                                ", so its calls are counted at entry only");
            }
        }
    }

    // Go's functions begin again after they have got a larger stack, so their probes stay where
    // they are.
    void find_entry_probes() {
        if (is_go(file_)) {
            return;
        }
        std::vector<symbols::FoundFunction> functions;
        for (std::size_t i = 0; i < candidates_.chosen.size(); ++i) {
            const symbols::ListedFunction &function = *candidates_.chosen[i].function;
            functions.push_back({i, function.file_offset, function.vaddr, function.size, true});
        }
        const auto probes = symbols::find_entry_probes(file_, fd_, functions);
        for (std::size_t i = 0; i < probes.size(); ++i) {
            selection_.functions[i].entry_probe = probes[i];
        }
    }

    // The last ones, as the others are in the order of the candidates.
    void add_usdt_calls() {
        std::vector<symbols::UsdtName> names;
        for (const GroupMatcher &group : groups_) {
            for (const UsdtCall &call : group.usdt()) {
                names.push_back({call.provider, call.begin});
                names.push_back({call.provider, call.end});
            }
        }
        if (names.empty()) {
            return;
        }
        auto found = file_.find_usdt_probes(names);
        if (!found) {
            selection_.problems.push_back(name_ + ": " + found.error().message +
                                          ", so nothing between them is counted");
            found = std::vector<symbols::UsdtProbe>(names.size());
        }
        std::size_t next = 0;
        for (const GroupMatcher &group : groups_) {
            for (const UsdtCall &call : group.usdt()) {
                const bool has_begin = is_usable(group, names[next], (*found)[next]);
                const bool has_end = is_usable(group, names[next + 1], (*found)[next + 1]);
                if (has_begin && has_end) {
                    add_usdt_call(group, call, std::move((*found)[next].places),
                                  std::move((*found)[next + 1].places));
                }
                next += 2;
            }
        }
    }

    bool is_usable(const GroupMatcher &group, const symbols::UsdtName &name,
                   const symbols::UsdtProbe &probe) {
        const std::string shown = name.provider + ":" + name.probe;
        if (probe.unusable > 0) {
            selection_.problems.push_back(
                name_ + ": " + std::to_string(probe.unusable) + " places of the USDT probe " +
                shown + " are no instruction that does nothing, so they are not counted");
        }
        if (probe.wrong_semaphores > 0) {
            selection_.problems.push_back(
                name_ + ": " + std::to_string(probe.wrong_semaphores) +
                " places of the USDT probe " + shown +
                " have a semaphore that is not an aligned counter of two bytes in the section "
                ".probes, so they are not counted");
        }
        if (probe.places.empty()) {
            selection_.lacks_probes = true;
            selection_.unmatched[group.name()].push_back(shown);
        }
        return !probe.places.empty();
    }

    void add_usdt_call(const GroupMatcher &group, const UsdtCall &call,
                       std::vector<symbols::UsdtPlace> begins,
                       std::vector<symbols::UsdtPlace> ends) {
        SelectedFunction function;
        function.group = group.name();
        function.name = to_valid_utf8(call.name, max_function_name);
        function.symbol = call.provider + ":" + call.begin;
        function.options = group.options(call);
        function.entry = begins.front().file_offset;
        function.entry_probe = {function.entry, false};
        function.ending = ExitStrategy::exits;
        function.begins = std::move(begins);
        function.ends = std::move(ends);
        const auto same =
            std::ranges::find(selection_.functions, function.entry, &SelectedFunction::entry);
        if (same != selection_.functions.end()) {
            shared_.add(name_ + ": " + function.name + " of the group " + function.group +
                        " begins where " + same->name + " of the group " + same->group +
                        " does, and is not counted");
            return;
        }
        selection_.functions.push_back(std::move(function));
    }

    const symbols::ElfFile &file_;
    int fd_;
    std::string name_;  // of the file
    std::vector<GroupMatcher> groups_;
    Candidates candidates_;
    Selection selection_;
    Problems shared_;
    Problems entry_only_;
};

}  // namespace

bool wants(const FunctionGroups &groups, std::string_view name, std::string_view path) {
    return std::any_of(groups.begin(), groups.end(),
                       [name = std::string(name), path = std::string(path)](const auto &entry) {
                           return applies(entry.second, name, path);
                       });
}

Result<Selection> select_functions(const symbols::ElfFile &file, int fd, std::string_view file_name,
                                   std::string_view path, const FunctionGroups &groups,
                                   std::size_t max_functions) {
    std::vector<GroupMatcher> wanting;
    for (const auto &[name, group] : groups) {
        if (applies(group, std::string(file_name), std::string(path)) ||
            matches_exports(group, file, file_name)) {
            wanting.emplace_back(name, group);
        }
    }
    if (wanting.empty()) {
        return Selection{};
    }
    return Selector(file, fd, file_name, std::move(wanting)).run(max_functions);
}

}  // namespace gpusnoop::probes
