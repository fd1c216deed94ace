#include "exporter/probes/functions/select/unnamed.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>

#include "exporter/base/glob.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/functions/select/selection.h"

namespace gpusnoop::probes {

namespace {

// Of the largest library, libtorch_cuda, all is read in 20 ms.
const symbols::ElfLimits limits{.max_bytes_read = std::uint64_t{256} << 20,
                                .max_string_table = std::uint64_t{128} << 20,
                                .max_symbols = 2'000'000,
                                .deadline = std::chrono::milliseconds(100)};

// Is it libone_part.so of a group that names libone.so?
bool is_inner(const FunctionGroup &group, std::string_view name) {
    return std::ranges::any_of(group.libraries, [&](const std::string &glob) {
        const std::string_view file = last_part(glob);
        const std::string_view stem = file.substr(0, file.find_first_of(".-*?["));
        return !stem.empty() && name.size() > stem.size() && name.starts_with(stem) &&
               name[stem.size()] == '_';
    });
}

// The functions that the group names exactly.
std::vector<std::string_view> exact_names(const FunctionGroup &group) {
    std::vector<std::string_view> names;
    for (const FunctionPattern &pattern : group.functions) {
        if (!pattern.is_glob) {
            names.push_back(pattern.symbol);
        }
    }
    return names;
}

}  // namespace

Result<std::vector<UnnamedExports>> unnamed_exports(int fd, std::string_view name,
                                                    std::string_view path,
                                                    const FunctionGroups &groups) {
    std::vector<UnnamedExports> exports;
    if (wants(groups, name, path)) {
        return exports;
    }
    std::vector<std::string_view> names;
    std::vector<std::string_view> group_of;
    for (const auto &[group_name, group] : groups) {
        if (!group.enabled || is_inner(group, name)) {
            continue;
        }
        const auto of_group = exact_names(group);
        names.insert(names.end(), of_group.begin(), of_group.end());
        group_of.resize(names.size(), group_name);
    }
    const auto file = symbols::ElfFile::open(fd, limits);
    if (!file) {
        return tl::unexpected(file.error());
    }
    const auto found = file->exported(names);
    if (!found) {
        return tl::unexpected(found.error());
    }
    for (const std::size_t i : *found) {
        if (exports.empty() || exports.back().group != group_of[i]) {
            exports.push_back(
                {.group = std::string(group_of[i]),
                 .function = std::string(names[i]),
                 .is_counted = groups.find(std::string(group_of[i]))->second.match_exports});
        }
    }
    return exports;
}

bool matches_exports(const FunctionGroup &group, const symbols::ElfFile &file,
                     std::string_view name) {
    if (!group.enabled || !group.match_exports || is_inner(group, name)) {
        return false;
    }
    const auto found = file.exported(exact_names(group));
    return found && !found->empty();
}

bool matches_exports(const FunctionGroups &groups, int fd, std::string_view name) {
    const auto has_any = [](const auto &entry) {
        return entry.second.enabled && entry.second.match_exports;
    };
    if (std::ranges::none_of(groups, has_any)) {
        return false;
    }
    const auto file = symbols::ElfFile::open(fd, limits);
    return file && std::ranges::any_of(groups, [&](const auto &entry) {
               return matches_exports(entry.second, *file, name);
           });
}

std::string problem_of(const std::vector<UnnamedExports> &exports) {
    std::string problem;
    for (const UnnamedExports &one : exports) {
        if (!one.is_counted) {
            problem += (problem.empty() ? "" : "; ") + std::string("it exports ") + one.function +
                       " of the group " + one.group + ": add its name to functions.groups." +
                       one.group + ".libraries";
        }
    }
    return problem;
}

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
