// Examines the files that no attacher wants by name.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/discovery/discovery.h"

namespace gpusnoop::discovery {

// Largest first: a library that others are linked into is large.
void Discovery::add_unnamed(const std::vector<ebpf::Mapping> &mappings,
                            const std::set<std::uint32_t> &users) {
    if (std::ranges::none_of(attachers_, [](const Attacher *one) { return one->examines(); })) {
        return;
    }
    std::vector<const ebpf::Mapping *> unnamed;
    for (const ebpf::Mapping &mapping : mappings) {
        if (mapping.is_by_process() && users.contains(mapping.tgid) &&
            mapping.tgid != static_cast<std::uint32_t>(::getpid()) && !wanted(mapping.name)) {
            unnamed.push_back(&mapping);
        }
    }
    std::ranges::sort(unnamed, std::ranges::greater{},
                      [](const ebpf::Mapping *mapping) { return mapping->state.bytes; });
    std::map<std::uint32_t, std::uint32_t> users_of;  // processes
    for (const ebpf::Mapping *mapping : unnamed) {
        unnamed_.files.follow(mapping->tgid);
        if (unnamed_.files.see(*mapping)) {
            continue;
        }
        const auto [user, is_new] = users_of.try_emplace(mapping->tgid);
        if (is_new) {
            user->second = user_of(mapping->tgid);
        }
        unnamed_.files.add(user->second, *mapping, Clock::now());
    }
}

void Discovery::examine_unnamed() {
    news_.processes.merge(unnamed_.files.take_changed(Clock::now()));
    if (!unnamed_.opening) {
        unnamed_.turn = unnamed_.files.begin_turn(Clock::now());
        if (!unnamed_.turn) {
            return;
        }
        const ebpf::Mapping &mapping = unnamed_.turn->mapping;
        unnamed_.opening = std::make_unique<processes::FileOpener::Opening>(
            mapping, kernel_.mappings->path_of(mapping), ForeignReader::Part::symbols);
    }
    auto file = openings_.opener->advance(*unnamed_.opening, std::chrono::milliseconds(1));
    const bool is_late = Clock::now() - unnamed_.turn->began >= UnnamedFiles::longest_turn;
    if (!file && !is_late) {
        return;
    }
    const auto opening = std::move(unnamed_.opening);
    if (!file) {
        openings_.opener->abandon(*opening);
    } else if (*file) {
        examine(*opening, std::move(**file));
    }
    unnamed_.files.end_turn(*unnamed_.turn, Clock::now());
}

void Discovery::examine(const processes::FileOpener::Opening &opening, processes::MappedFile file) {
    const ebpf::Mapping &mapping = opening.mapping();
    const Library library{mapping.file,           std::move(file.file), mapping.name,
                          opening.path(),         mapping.is_program,   mapping.tid,
                          std::move(file.content)};
    if (settings_.exclude && settings_.exclude(library)) {
        return;
    }
    for (Attacher *attacher : attachers_) {
        if (!attacher->examines()) {
            continue;
        }
        const auto found = attacher->examine(library);
        if (found.is_wanted) {
            unnamed_.files.want(*attacher, mapping.file);
            consider(mapping, *attacher);
        }
        if (!found.problem.empty() && unnamed_.files.may_name(*unnamed_.turn)) {
            log::warn(
                "a library with an unexpected name has functions of a group, and is not traced",
                {{"library", to_valid_utf8(library.name, max_label_bytes)},
                 {"path", to_valid_utf8(library.path, max_label_bytes)},
                 {"pid", std::to_string(mapping.tgid)},
                 {"reason", found.problem}});
        }
    }
}

}  // namespace gpusnoop::discovery
