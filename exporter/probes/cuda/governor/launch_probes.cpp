#include "exporter/probes/cuda/governor/launch_probes.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <thread>
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
// As ebpf::Detacher's: another thread can attach in this pause.
constexpr std::chrono::milliseconds pause_between_perf_events{30};

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

tl::expected<AttachedLibraries::Functions, CudaPrograms::Failure> LaunchProbes::attach(
    const discovery::Library &library, CudaPrograms::Places places) {
    File file{.fd = Fd(::fcntl(library.file.get(), F_DUPFD_CLOEXEC, 3)),
              .places = std::move(places),
              .is_inner = is_cuda_driver(library.name),
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
    const AttachedLibraries::Functions functions{shared->functions(),
                                                 shared->expensive_functions()};
    file.shared = std::move(*shared);
    Surplus surplus;
    {
        const std::lock_guard lock(mutex_);
        File &added = files_.insert_or_assign(library.id, std::move(file)).first->second;
        settle(library.id, added, surplus);
    }
    close(std::move(surplus));
    return functions;
}

void LaunchProbes::used(const ebpf::Mapping &mapping) {
    if (!mapping.is_by_process()) {
        return;
    }
    Surplus surplus;
    {
        const std::lock_guard lock(mutex_);
        Users &users = users_[mapping.file];
        const User user{mapping.started, mapping.execs};
        const auto known = users.find(mapping.tgid);
        if (known != users.end() && known->second == user) {
            return;
        }
        users.insert_or_assign(mapping.tgid, user);
        if (users.size() % many_users == 0) {
            std::erase_if(users, [](const auto &entry) { return has_ended(entry.first); });
        }
        const auto file = files_.find(mapping.file);
        if (file == files_.end()) {
            return;
        }
        // The link of an earlier process of this number is in no process any more.
        if (auto earlier = file->second.own.extract(mapping.tgid)) {
            give_up(mapping.file, std::move(earlier.mapped()), surplus);
        }
        settle(mapping.file, file->second, surplus);
    }
    close(std::move(surplus));
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
    if (const auto users = users_.find(id); users != users_.end()) {
        std::erase_if(users->second, [](const auto &entry) { return has_ended(entry.first); });
        if (users->second.empty()) {
            users_.erase(users);
        }
    }
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

bool LaunchProbes::is_closing(const FileId &id) {
    const std::lock_guard lock(mutex_);
    return closing_.contains(id);
}

bool LaunchProbes::is_in_turns(const Users &users) const {
    return std::ranges::any_of(in_turns_,
                               [&](const auto &entry) { return users.contains(entry.first); });
}

bool LaunchProbes::is_seen(std::uint32_t tgid) const {
    const auto found = in_turns_.find(tgid);
    return found == in_turns_.end() || found->second != Sight::out_of_turn;
}

bool LaunchProbes::is_attached(std::uint32_t tgid) const {
    return std::ranges::any_of(files_, [&](const auto &entry) {
        const auto &[id, file] = entry;
        const auto users = users_.find(id);
        return users != users_.end() && users->second.contains(tgid) &&
               (!file.shared.is_empty() || file.own.contains(tgid));
    });
}

void LaunchProbes::warn(std::string_view what, const Error &error) {
    if (warnings_.allow(now_on(CLOCK_MONOTONIC))) {
        log::warn(what, {{"probe", "cuda"}, {"reason", error.message}});
    }
}

Result<> LaunchProbes::attach_own(File &file, Users &users) {
    for (const auto &[tgid, user] : users) {
        if (file.own.contains(tgid) || !is_seen(tgid)) {
            continue;
        }
        auto probes = programs_.attach_again(file.fd.get(), file.places, tgid);
        if (probes) {
            log::debug("attached to the kernel launches of one process",
                       {{"probe", "cuda"}, {"pid", tgid}, {"functions", probes->functions()}});
            file.own.emplace(tgid, std::move(*probes));
        } else if (probes.error().code != ESRCH) {  // it ends
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

void LaunchProbes::give_up(const FileId &id, UprobeSet probes, Surplus &surplus) {
    closing_[id]++;
    surplus.emplace_back(id, std::move(probes));
}

// What is missing is attached before anything is taken away.
void LaunchProbes::settle(const FileId &id, File &file, Surplus &surplus) {
    Users &users = users_[id];
    bool has_own = is_in_turns(users);
    if (has_own) {
        std::erase_if(users, [](const auto &entry) { return has_ended(entry.first); });
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
        give_up(id, std::exchange(file.shared, {}), surplus);
    }
    for (auto own = file.own.begin(); own != file.own.end();) {
        const auto one = own++;
        if (!has_own || !users.contains(one->first) || !is_seen(one->first)) {
            give_up(id, std::move(one->second), surplus);
            file.own.erase(one);
        }
    }
}

// Closing waits until no CPU can still run the program, so not with the lock. The driver's come
// first, or the runtime's launches would count as the driver's meanwhile.
void LaunchProbes::close(Surplus surplus) {
    if (surplus.empty()) {
        return;
    }
    for (auto one = surplus.rbegin(); one != surplus.rend(); ++one) {
        while (Fd link = one->second.take_link()) {
            link.reset();
            if (programs_.mode() == ebpf::AttachMode::perf) {
                std::this_thread::sleep_for(pause_between_perf_events);
            }
        }
    }
    ForeignReader::wait_until_copies_are_closed();
    const std::lock_guard lock(mutex_);
    for (const auto &[id, probes] : surplus) {
        if (--closing_[id] == 0) {
            closing_.erase(id);
        }
    }
}

std::optional<std::chrono::nanoseconds> LaunchProbes::set(std::uint32_t tgid, Sight sight) {
    Surplus surplus;
    bool is_attached_still = false;
    {
        const std::lock_guard lock(mutex_);
        if (sight == Sight::always) {
            in_turns_.erase(tgid);
        } else {
            in_turns_[tgid] = sight;
        }
        for (const bool inner : {false, true}) {
            for (auto &[id, file] : files_) {
                const auto users = users_.find(id);
                const bool is_used = users != users_.end() && users->second.contains(tgid);
                if (file.is_inner == inner && (is_used || file.shared.is_empty())) {
                    settle(id, file, surplus);
                }
            }
        }
        is_attached_still = is_attached(tgid);
    }
    const std::chrono::nanoseconds before = now_on(CLOCK_MONOTONIC);
    close(std::move(surplus));
    return is_attached_still ? std::nullopt : std::optional(before);
}

}  // namespace gpusnoop::probes
