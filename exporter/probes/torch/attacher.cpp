#include "exporter/probes/torch/attacher.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/base/glob.h"
#include "exporter/base/log.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

namespace {

// To attach to it again.
discovery::Library copy_of(const discovery::Library &library) {
    discovery::Library copy;
    copy.id = library.id;
    copy.file = duplicate(library.file);
    copy.name = library.name;
    copy.path = library.path;
    copy.is_program = library.is_program;
    copy.tid = library.tid;
    copy.content = library.content ? duplicate(library.content) : Fd();
    copy.state = library.state;
    return copy;
}

// At this number of a file's users, and each multiple, those that have ended are forgotten.
constexpr std::size_t many_users = 256;

}  // namespace

TorchAttacher::TorchAttacher(const TorchPrograms &programs, AttachedLibraries &attached,
                             std::vector<std::string> libraries)
    : programs_(programs),
      attached_(attached),
      libraries_(std::move(libraries)),
      detacher_(programs.mode()) {}

// Detaches all at the same time: one after another would take long.
TorchAttacher::~TorchAttacher() {
    for (auto &[id, probes] : attached_.remove_all()) {
        detacher_.detach({.file = id, .probes = std::move(probes)});
    }
}

bool TorchAttacher::wants(std::string_view name) const {
    return matches_any(libraries_, name);
}

// Without the lock while it attaches, for which the aggregating thread never waits: only this
// thread adds and removes files.
void TorchAttacher::used(const ebpf::Mapping &mapping,
                         std::optional<std::chrono::nanoseconds> /*mapped_at*/) {
    if (!mapping.is_by_process()) {
        return;
    }
    const auto file = files_.find(mapping.file);
    {
        const std::lock_guard lock(mutex_);
        std::set<std::uint32_t> &users = users_[mapping.file];
        users.insert(mapping.tgid);
        if (users.size() % many_users == 0) {
            std::erase_if(users, processes::has_ended);
        }
        if (file == files_.end() || !file->second.is_left || given_up_.contains(mapping.tgid)) {
            return;
        }
    }
    if (const auto attached = attach_to(file->second); !attached) {
        log::warn("cannot attach to a library again",  // the next rescan tries it once more
                  {{"probe", "torch"},
                   {"inode", mapping.file.inode},
                   {"reason", attached.error().message}});
    } else {
        const std::lock_guard lock(mutex_);
        file->second.is_left = false;
    }
}

Result<> TorchAttacher::attach(const discovery::Library &library) {
    auto points = TorchPrograms::find(library);
    if (!points) {
        return refuse(points.error());
    }
    if (points->empty()) {
        return {};
    }
    File file{.library = copy_of(library), .points = std::move(*points)};
    file.library.note_progress = library.note_progress;
    auto attached = attach_to(file);
    file.library.note_progress = [] {};
    if (attached) {
        const std::lock_guard lock(mutex_);
        files_.insert_or_assign(library.id, std::move(file));
    }
    return attached;
}

Result<> TorchAttacher::refuse(const TorchPrograms::Failure &failure) {
    if (failure.error.code != EAGAIN) {  // then it is offered again soon
        failed(failure.reason);
    }
    return tl::unexpected(failure.error);
}

Result<> TorchAttacher::attach_to(const File &file) {
    auto kept = detacher_.take_back(file.library.id);
    auto probes =
        programs_.attach(file.library, file.points, std::move(kept).value_or(ebpf::UprobeSet{}));
    if (!probes) {
        return refuse(probes.error());
    }
    attached_.add(file.library, std::move(*probes), programs_.mode(), "attached");
    return {};
}

void TorchAttacher::detach(const FileId &id, bool is_changed) {
    {
        const std::lock_guard lock(mutex_);
        files_.erase(id);
        users_.erase(id);
    }
    if (auto probes = attached_.remove(id, AttachedLibraries::reason(is_changed))) {
        detacher_.detach({.file = id, .probes = *std::move(probes), .is_changed = is_changed});
    }
}

bool TorchAttacher::has_only_given_up(const FileId &id) {
    const auto users = users_.find(id);
    if (users == users_.end()) {
        return false;
    }
    std::erase_if(users->second, processes::has_ended);
    return !users->second.empty() && std::ranges::all_of(users->second, [this](auto tgid) {
        return given_up_.contains(tgid);
    });
}

void TorchAttacher::leave_files() {
    for (auto &[id, file] : files_) {
        if (file.is_left || !has_only_given_up(id)) {
            continue;
        }
        file.is_left = true;
        if (auto probes = attached_.remove(
                id, "detached: observing tensors costs the processes that use it too much")) {
            detacher_.detach({.file = id, .probes = *std::move(probes)});
        }
    }
}

void TorchAttacher::give_up(std::uint32_t tgid) {
    const std::lock_guard lock(mutex_);
    given_up_.insert(tgid);
    leave_files();
}

void TorchAttacher::ended(std::uint32_t tgid) {
    const std::lock_guard lock(mutex_);
    given_up_.erase(tgid);
    for (auto &[id, users] : users_) {
        users.erase(tgid);
    }
    if (!given_up_.empty()) {
        leave_files();
    }
}

}  // namespace gpusnoop::probes
