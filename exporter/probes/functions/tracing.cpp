#include "exporter/probes/functions/tracing.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "exporter/base/glob.h"
#include "exporter/config/globs.h"

namespace gpusnoop::probes {

namespace {

bool matches(const std::vector<std::string> &globs, const std::string &name) {
    return std::ranges::any_of(
        globs, [&](const std::string &glob) { return glob == name || matches_glob(glob, name); });
}

bool is_wanted(const FunctionTracing &tracing, const SelectedFunction &function) {
    if (!tracing.functions.empty() && !matches(tracing.functions, function.symbol) &&
        !matches(tracing.functions, function.name)) {
        return false;
    }
    return !tracing.is_by_duration() ||
           (function.ending != ExitStrategy::none &&
            (!tracing.only_slow || function.options->slow_threshold.has_value()));
}

}  // namespace

std::uint64_t FunctionTracing::wanted_from_ns(const FunctionOptions &options) const {
    std::chrono::nanoseconds from = min_duration;
    if (only_slow && options.slow_threshold) {
        from = std::max(from, std::chrono::nanoseconds(*options.slow_threshold));
    }
    return static_cast<std::uint64_t>(from.count());
}

FunctionGroups named_groups(const FunctionTracing &tracing) {
    if (tracing.libraries.empty()) {
        return {};
    }
    FunctionGroup group;
    group.libraries = tracing.libraries;
    for (const std::string &name : tracing.functions) {
        group.functions.push_back({.symbol = name, .is_glob = config::is_glob(name)});
    }
    // All arguments: no configuration names the function's own.
    group.options.arguments = {1, 2, 3, 4, 5, 6};
    group.options.endings = tracing.endings;
    return {{"--function", std::move(group)}};
}

Result<Selection> select_traced(const FunctionTracing &tracing, const symbols::ElfFile &file,
                                int fd, std::string_view file_name, std::string_view path,
                                const FunctionGroups &groups, std::size_t max_functions) {
    auto selection = select_functions(file, fd, file_name, path, groups, max_functions);
    if (!selection) {
        return selection;
    }
    std::set<std::uint64_t> configured;
    for (const SelectedFunction &function : selection->functions) {
        configured.insert(function.entry);
    }
    if (!tracing.functions.empty()) {
        selection->unmatched.clear();  // these functions are not wanted
    }
    if (!tracing.libraries.empty() && !tracing.functions.empty()) {
        auto named =
            select_functions(file, fd, file_name, path, named_groups(tracing), max_functions);
        if (!named) {
            return named;
        }
        // A function's settings in the configuration still apply.
        std::ranges::copy_if(
            named->functions, std::back_inserter(selection->functions),
            [&](const SelectedFunction &function) { return !configured.contains(function.entry); });
        selection->unmatched = std::move(named->unmatched);
        selection->problems = std::move(named->problems);
    }
    std::erase_if(selection->functions,
                  [&](const SelectedFunction &function) { return !is_wanted(tracing, function); });
    return selection;
}

}  // namespace gpusnoop::probes
