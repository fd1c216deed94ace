#include "exporter/probes/functions/select/unnamed.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "exporter/base/words.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

namespace {

// Those of the largest libraries, in a tenth of the time of a wanted file.
constexpr symbols::ElfLimits limits{.max_bytes_read = std::uint64_t{256} << 20,
                                    .max_string_table = std::uint64_t{128} << 20,
                                    .max_symbols = 2'000'000,
                                    .deadline = std::chrono::milliseconds(200)};

// Is it libone_part.so of a group that names libone.so?
bool is_inner(const FunctionGroup &group, std::string_view name) {
    return std::ranges::any_of(group.libraries, [&](const std::string &glob) {
        const std::string_view file = last_part(glob);
        const std::string_view stem = file.substr(0, file.find_first_of(".-*?["));
        return !stem.empty() && name.size() > stem.size() && name.starts_with(stem) &&
               name[stem.size()] == '_';
    });
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
        for (const FunctionPattern &pattern : group.functions) {
            if (!pattern.is_glob) {
                names.push_back(pattern.symbol);
                group_of.push_back(group_name);
            }
        }
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
            exports.push_back({std::string(group_of[i]), std::string(names[i])});
        }
    }
    return exports;
}

}  // namespace gpusnoop::probes
