#include "exporter/probes/cuda/governor/launch_probes.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/probes/cuda/functions.h"
#include "exporter/system/foreign_reader.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using ebpf::AttachPoint;
using ebpf::UprobeSet;

// Processes end without a word: the users of a file are looked through at this many.
constexpr std::size_t many_users = 1'024;

std::vector<AttachPoint> take_launches(std::vector<AttachPoint> &points) {
    const auto rest = std::ranges::stable_partition(
        points, [](const AttachPoint &point) { return !launches_kernel(point.cookie); });
    std::vector<AttachPoint> launches(rest.begin(), rest.end());
    points.erase(rest.begin(), rest.end());
    return launches;
}

bool has_ended(std::uint32_t tgid) {
    return ::kill(static_cast<pid_t>(tgid), 0) != 0 && errno == ESRCH;
}

}  // namespace

CudaPrograms::Places take_launches(CudaPrograms::Places &places) {
    return {.points = take_launches(places.points),
            .exits = take_launches(places.exits),
            .functions = places.functions};
}

tl::expected<std::size_t, CudaPrograms::Failure> LaunchProbes::attach(
    const discovery::Library &library, CudaPrograms::Places places) {
    File file{.fd = Fd(::fcntl(library.file.get(), F_DUPFD_CLOEXEC, 3)),
              .places = std::move(places),
              .shared = {},
              .own = {}};
    if (!file.fd) {
        return tl::unexpected(
            CudaPrograms::Failure{"attach", fail_errno("duplicate a descriptor").value()});
    }
    auto shared = programs_.attach(library, file.places);
    if (!shared) {
        return tl::unexpected(shared.error());
    }
    const std::size_t functions = shared->functions();
    file.shared = std::move(*shared);
    std::vector<UprobeSet> surplus;
    {
        const std::lock_guard lock(mutex_);
        File &added = files_.insert_or_assign(library.id, std::move(file)).first->second;
        settle(library.id, added, surplus);
    }
    return functions;
}

void LaunchProbes::used(const ebpf::Mapping &mapping) {
    if (!mapping.is_by_process()) {
        return;
    }
    std::vector<UprobeSet> surplus;  // closed without the lock
    const std::lock_guard lock(mutex_);
    Users &users = users_[mapping.file];
    if (!users.insert(mapping.tgid).second) {
        return;
    }
    if (users.size() % many_users == 0) {
        std::erase_if(users, has_ended);
    }
    if (const auto file = files_.find(mapping.file); file != files_.end()) {
        settle(mapping.file, file->second, surplus);
    }
}

std::vector<UprobeSet> LaunchProbes::remove(const FileId &id) {
    const std::lock_guard lock(mutex_);
    std::vector<UprobeSet> probes;
    if (auto file = files_.extract(id)) {
        probes.push_back(std::move(file.mapped().shared));
        for (auto &[tgid, own] : file.mapped().own) {
            probes.push_back(std::move(own));
        }
    }
    users_.erase(id);
    return probes;
}

std::vector<FileId> LaunchProbes::files() {
    const std::lock_guard lock(mutex_);
    std::vector<FileId> files;
    for (const auto &[id, file] : files_) {
        files.push_back(id);
    }
    return files;
}

bool LaunchProbes::is_in_turns(const Users &users) const {
    return std::ranges::any_of(in_turns_,
                               [&](const auto &entry) { return users.contains(entry.first); });
}

bool LaunchProbes::is_seen(std::uint32_t tgid) const {
    const auto found = in_turns_.find(tgid);
    return found == in_turns_.end() || found->second != Sight::out_of_turn;
}

void LaunchProbes::warn(std::string_view what, const Error &error) {
    if (warnings_.allow(now_on(CLOCK_MONOTONIC))) {
        log::warn(what, {{"probe", "cuda"}, {"reason", error.message}});
    }
}

Result<> LaunchProbes::attach_own(File &file, Users &users) {
    for (auto user = users.begin(); user != users.end();) {
        const std::uint32_t tgid = *user++;
        if (file.own.contains(tgid) || !is_seen(tgid)) {
            continue;
        }
        auto probes = programs_.attach_again(file.fd.get(), file.places, tgid);
        if (probes) {
            log::debug("attached to the kernel launches of one process",
                       {{"probe", "cuda"}, {"pid", tgid}, {"functions", probes->functions()}});
            file.own.emplace(tgid, std::move(*probes));
        } else if (has_ended(tgid)) {
            users.erase(tgid);
        } else {
            return tl::unexpected(probes.error());
        }
    }
    return {};
}

Result<> LaunchProbes::attach_shared(File &file) {
    if (!file.shared.is_empty()) {
        return {};
    }
    auto shared = programs_.attach_again(file.fd.get(), file.places, std::nullopt);
    if (!shared) {
        return tl::unexpected(shared.error());
    }
    file.shared = std::move(*shared);
    log::debug("attached to the kernel launches of all processes again",
               {{"probe", "cuda"}, {"functions", file.shared.functions()}});
    return {};
}

// What is missing is attached before anything is taken away.
void LaunchProbes::settle(const FileId &id, File &file, std::vector<UprobeSet> &surplus) {
    Users &users = users_[id];
    bool has_own = is_in_turns(users);
    if (has_own) {
        if (const auto attached = attach_own(file, users); !attached) {
            warn("cannot attach to the kernel launches of one process: those of all are seen",
                 attached.error());
            has_own = false;
        }
    }
    if (!has_own) {
        if (const auto attached = attach_shared(file); !attached) {
            warn("cannot attach to kernel launches again: those of new processes are not counted",
                 attached.error());
            return;
        }
    } else if (!file.shared.is_empty()) {
        surplus.push_back(std::exchange(file.shared, {}));
    }
    for (auto own = file.own.begin(); own != file.own.end();) {
        const auto one = own++;
        if (!has_own || !users.contains(one->first) || !is_seen(one->first)) {
            surplus.push_back(std::move(one->second));
            file.own.erase(one);
        }
    }
}

void LaunchProbes::set(std::uint32_t tgid, Sight sight) {
    std::vector<UprobeSet> surplus;
    {
        const std::lock_guard lock(mutex_);
        if (sight == Sight::always) {
            in_turns_.erase(tgid);
        } else {
            in_turns_[tgid] = sight;
        }
        for (auto &[id, file] : files_) {
            if (const auto users = users_.find(id);
                users != users_.end() && users->second.contains(tgid)) {
                settle(id, file, surplus);
            }
        }
    }
    // Closing waits until no CPU can still run the program, so not with the lock.
    surplus.clear();
    ForeignReader::wait_until_copies_are_closed();
}

}  // namespace gpusnoop::probes
