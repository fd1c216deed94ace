#include "exporter/discovery/found_libraries.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace gpusnoop::discovery {

namespace {

// A process that the exporter may not send a signal to (EPERM) runs, too.
bool runs(std::uint32_t tgid) {
    return ::kill(static_cast<pid_t>(tgid), 0) == 0 || errno == EPERM;
}

}  // namespace

void FoundLibraries::begin_look() {
    const std::lock_guard lock(mutex_);
    in_look_ = true;
    for (auto &[id, file] : files_) {
        file.users_in_look.clear();
    }
}

std::set<FileId> FoundLibraries::end_look(const std::set<std::uint32_t> &unread) {
    const std::lock_guard lock(mutex_);
    in_look_ = false;
    std::set<FileId> kept;
    for (auto &[id, file] : files_) {
        const Users before = std::exchange(file.users, std::exchange(file.users_in_look, {}));
        for (const std::uint32_t user : before) {
            if (unread.contains(user)) {
                file.users.insert(user);
                kept.insert(id);
            }
        }
    }
    return kept;
}

FoundLibraries::File &FoundLibraries::add(const Attacher &attacher, const FileId &id,
                                          const std::string &name) {
    File &file = files_[id];
    file.wanted_by.insert(&attacher);
    file.known.id = id;
    if (file.known.name.empty()) {
        file.known.name = name;
    }
    return file;
}

void FoundLibraries::named(const Attacher &attacher, const FileId &id, const std::string &name) {
    const std::lock_guard lock(mutex_);
    (void)add(attacher, id, name);
}

void FoundLibraries::used(const Attacher &attacher, const FileId &id, const std::string &name,
                          std::uint32_t tgid) {
    const std::lock_guard lock(mutex_);
    File &file = add(attacher, id, name);
    file.users.insert(tgid);
    if (in_look_) {
        file.users_in_look.insert(tgid);
    }
    // Between two full scans, short-lived processes must not pile up.
    if (file.users.size() >= file.prune_at) {
        std::erase_if(file.users, [](std::uint32_t user) { return !runs(user); });
        file.prune_at = std::max<std::size_t>(1024, 2 * file.users.size());
    }
}

bool FoundLibraries::has_users() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(files_, [](const auto &file) { return !file.second.users.empty(); });
}

void FoundLibraries::settled(const Attacher &attacher, const Library &library) {
    const std::lock_guard lock(mutex_);
    const auto file = files_.find(library.id);
    if (file == files_.end()) {
        return;
    }
    file->second.known.problems.erase(&attacher);
    file->second.known.name = library.name;
    file->second.known.is_program = library.is_program;
    if (!library.path.empty()) {
        file->second.known.path = library.path;
    }
}

void FoundLibraries::failed(const Attacher &attacher, const FileId &id,
                            const std::string &problem) {
    const std::lock_guard lock(mutex_);
    if (const auto file = files_.find(id); file != files_.end()) {
        file->second.known.problems[&attacher] = problem;
    }
}

void FoundLibraries::forget(const Attacher &attacher, const FileId &id) {
    const std::lock_guard lock(mutex_);
    const auto file = files_.find(id);
    if (file == files_.end()) {
        return;
    }
    file->second.known.problems.erase(&attacher);
    file->second.wanted_by.erase(&attacher);
    if (file->second.wanted_by.empty()) {
        files_.erase(file);
    }
}

std::vector<FoundLibrary> FoundLibraries::list() const {
    std::vector<std::pair<FoundLibrary, Users>> found;
    {
        const std::lock_guard lock(mutex_);
        for (const auto &[id, file] : files_) {
            found.emplace_back(file.known, file.users);
        }
    }
    std::unordered_map<std::uint32_t, bool> known;  // most processes map several
    std::vector<FoundLibrary> list;
    for (auto &[library, users] : found) {
        library.processes =
            static_cast<std::size_t>(std::ranges::count_if(users, [&](std::uint32_t user) {
                const auto [entry, is_new] = known.try_emplace(user, false);
                if (is_new) {
                    entry->second = runs(user);
                }
                return entry->second;
            }));
        list.push_back(std::move(library));
    }
    std::ranges::sort(list, [](const FoundLibrary &a, const FoundLibrary &b) {
        return std::tie(a.path, a.name, a.id) < std::tie(b.path, b.name, b.id);
    });
    return list;
}

std::size_t FoundLibraries::remembered(const FileId &id) const {
    const std::lock_guard lock(mutex_);
    const auto file = files_.find(id);
    return file == files_.end() ? 0 : file->second.users.size();
}

}  // namespace gpusnoop::discovery
