#include "exporter/probes/functions/attacher.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "exporter/base/glob.h"
#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/config/globs.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

namespace {

// May a file of this name be wanted? Of globs for paths only the last part is looked at.
bool may_want(const FunctionGroups &groups, const std::string &name) {
    return std::ranges::any_of(groups, [&](const auto &entry) {
        const FunctionGroup &group = entry.second;
        return group.enabled && std::ranges::any_of(group.libraries, [&](const std::string &glob) {
                   return matches_glob(std::string(last_part(glob)), name);
               });
    });
}

void report_refused(const std::vector<std::string> &functions, const discovery::Library &library) {
    if (functions.empty()) {
        return;
    }
    std::string names;
    for (const std::string &name : functions) {
        names += (names.empty() ? "" : " ") + name;
    }
    log::warn(
        "the kernel allows no probe on the first instruction of these functions, so their calls "
        "are not counted",
        {{"probe", "functions"},
         {"library", to_valid_utf8(library.name, max_label_bytes)},
         {"functions", names}});
}

}  // namespace

FunctionsAttacher::FunctionsAttacher(FunctionPrograms &programs, FunctionIds &ids,
                                     AttachedLibraries &attached, FunctionsConfig config,
                                     const FunctionTracing *tracing, const ebpf::Features &features)
    : programs_(programs),
      attached_(attached),
      config_(std::move(config)),
      tracing_(tracing),
      features_(features),
      named_(tracing == nullptr ? FunctionGroups{}
                                : as_is_harmless(named_groups(*tracing), features)),
      files_(programs, ids) {}

bool FunctionsAttacher::wants(std::string_view name) const {
    return may_want(groups_of_files(), std::string(name));
}

std::vector<std::string> FunctionsAttacher::paths() const {
    std::vector<std::string> paths;
    for (const auto &[name, group] : groups_of_files()) {
        for (const std::string &library : group.libraries) {
            if (group.enabled && library.starts_with('/') && !config::is_glob(library)) {
                paths.push_back(library);
            }
        }
    }
    return paths;
}

bool FunctionsAttacher::examines() const {
    return named_.empty() && std::ranges::any_of(config_.groups, [](const auto &entry) {
               return entry.second.enabled;
           });
}

discovery::Attacher::Examined FunctionsAttacher::examine(const discovery::Library &library) {
    const auto exports =
        unnamed_exports(library.readable(), library.name, library.path, groups_of_files());
    if (!exports) {
        return {};
    }
    return {.is_wanted = std::ranges::any_of(*exports, &UnnamedExports::is_counted),
            .problem = problem_of(*exports)};
}

Result<Selection> FunctionsAttacher::select(const discovery::Library &library) {
    auto elf = symbols::ElfFile::open(library.readable(), library.limits);
    if (!elf) {
        return tl::unexpected(elf.error());
    }
    debug_files_.add_to(*elf, library.id,
                        {library.tid, library.path, library.content ? -1 : library.file.get()});
    const int fd = library.readable();
    return tracing_ ? select_traced(*tracing_, *elf, fd, library.name, library.path, config_.groups,
                                    config_.max_functions)
                    : select_functions(*elf, fd, library.name, library.path, config_.groups,
                                       config_.max_functions);
}

// What was not found, and what else is to be known. The groups that ship name functions of several
// libraries and versions, which none has all of.
void FunctionsAttacher::report(const Selection &selection, const discovery::Library &file) {
    const auto shipped = as_is_harmless(shipped_function_groups(), features_);
    const std::string library = to_valid_utf8(file.name, max_label_bytes);
    for (const auto &[group, settings] : config_.groups) {
        if (!probes::wants({{group, settings}}, file.name, file.path)) {
            continue;
        }
        const auto in_file = selection.unmatched.find(group);
        const auto patterns = unmatched_.note(
            group, settings, file.name,
            in_file == selection.unmatched.end() ? std::vector<std::string>{} : in_file->second);
        if (patterns.empty()) {
            continue;
        }
        std::string list;
        for (const std::string &pattern : patterns) {
            list += (list.empty() ? "" : " ") + pattern;
        }
        const auto as_shipped = shipped.find(group);
        const bool is_shipped =
            as_shipped != shipped.end() && as_shipped->second == config_.groups.at(group);
        (is_shipped ? log::debug : log::warn)(
            "functions not found in the library",
            {{"probe", "functions"}, {"group", group}, {"library", library}, {"functions", list}});
    }
    for (const std::string &problem : selection.problems) {
        log::warn(problem, {{"probe", "functions"}});
    }
}

Result<> FunctionsAttacher::attach(const discovery::Library &library) {
    // Programs are offered because of a library that they use, and paths are only known here.
    if (!probes::wants(groups_of_files(), library.name, library.path) &&
        !matches_exports(groups_of_files(), library.readable(), library.name)) {
        remove(library.id);
        return library.path.empty() ? fail("its path could not be read", ESRCH) : Result<>();
    }
    const auto selection = select(library);
    if (!selection && selection.error().code == EAGAIN) {
        return tl::unexpected(selection.error());  // it is offered again soon
    }
    if (!selection) {
        remove(library.id);
        failed("elf");
        return tl::unexpected(selection.error());
    }
    report(*selection, library);
    if (selection->lacks_probes) {
        failed("no_probe");
    }
    return change(library, selection->functions);
}

Result<> FunctionsAttacher::change(const discovery::Library &library,
                                   const std::vector<SelectedFunction> &functions) {
    const bool is_new = !files_.has(library.id);
    const auto changed = files_.change(library, functions);
    const auto count = files_.functions(library.id);
    if (count.attached == 0) {
        remove(library.id);
    } else if (is_new) {
        attached_.note(library, count, programs_.mode(), "attached");
    } else if (!changed || changed->added + changed->dropped + changed->changed > 0) {
        attached_.note(library, count, programs_.mode(), "attached as now configured");
    }
    if (!changed) {
        if (changed.error().code != EAGAIN) {
            failed("attach");
        }
        return tl::unexpected(changed.error());
    }
    report_refused(changed->refused, library);
    return {};
}

void FunctionsAttacher::detach(const FileId &id, bool is_changed) {
    files_.detach(id, is_changed ? AttachedFiles::Reason::changed : AttachedFiles::Reason::unused);
    (void)attached_.remove(id, AttachedLibraries::reason(is_changed));
    debug_files_.forget(id);
}

void FunctionsAttacher::remove(const FileId &id) {
    files_.detach(id, AttachedFiles::Reason::removed);
    (void)attached_.remove(id, "detached: no function of it is configured any more");
    debug_files_.forget(id);
}

bool FunctionsAttacher::reconfigure(const config::Config &config) {
    FunctionsConfig wanted = config_;
    const auto &now = config.of<FunctionsConfig>();
    wanted.max_functions = now.max_functions;
    wanted.groups = now.enabled ? now.groups : FunctionGroups{};
    wanted.groups = as_is_harmless(std::move(wanted.groups), features_);
    const bool is_same = wanted == config_;
    unmatched_.forget();
    config_ = std::move(wanted);  // even so, as the lines may have moved
    return !is_same;
}

}  // namespace gpusnoop::probes
