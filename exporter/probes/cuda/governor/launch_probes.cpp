#include "exporter/probes/cuda/governor/launch_probes.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <thread>

#include "bpf/cuda/cuda.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/attach/mapper_locks.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using ebpf::AttachPoint;
using ebpf::UprobeSet;
using processes::has_ended;
using std::chrono::nanoseconds;

// Processes end without a word: the users of a file are looked through at this many.
constexpr std::size_t many_users = 1'024;
// As ebpf::Detacher's: another thread can attach in this pause.
constexpr std::chrono::milliseconds pause_between_perf_events{30};

constexpr std::string_view cannot_exchange =
    "cannot attach to kernel launches in another way: they stay as they are";

std::vector<AttachPoint> take_launches(std::vector<AttachPoint> &points) {
    const auto rest = std::ranges::stable_partition(
        points, [](const AttachPoint &point) { return !launches_kernel(point.cookie); });
    std::vector<AttachPoint> launches(rest.begin(), rest.end());
    points.erase(rest.begin(), rest.end());
    return launches;
}

}  // namespace

CudaPrograms::Places take_launches(CudaPrograms::Places &places) {
    return {.points = take_launches(places.points),
            .exits = take_launches(places.exits),
            .functions = places.functions};
}

tl::expected<AttachedLibraries::Functions, CudaPrograms::Failure> LaunchProbes::attach(
    const discovery::Library &library, CudaPrograms::Places places) {
    File file{.fd = duplicate(library.file),
              .places = std::move(places),
              .is_driver = is_cuda_driver(library.name),
              .ends = {},
              .counting = {},
              .own = {}};
    if (!file.fd) {
        return tl::unexpected(
            CudaPrograms::Failure{"attach", fail_errno("duplicate a descriptor").value()});
    }
    LaunchLinks links = LaunchLinks::ends;
    {
        const std::lock_guard lock(mutex_);
        links = links_of(library.id, file);
    }
    AttachedLibraries::Functions functions{file.places.points.size(), 0};
    if (links == LaunchLinks::ends) {
        // This names the places that the kernel refuses.
        auto ends = programs_.attach(library, file.places);
        if (!ends) {
            return tl::unexpected(ends.error());
        }
        functions = {ends->functions(), ends->expensive_functions()};
        file.ends = std::move(*ends);
    }
    {
        const std::lock_guard lock(mutex_);
        files_.insert_or_assign(library.id, std::move(file));
    }
    (void)settle(library.id);
    return functions;
}

void LaunchProbes::used(const ebpf::Mapping &mapping) {
    if (!mapping.is_by_process()) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        Users &users = users_[mapping.file];
        const bool is_library = !mapping.is_program;
        const User user{mapping.started, mapping.execs, is_library ? mapping.start : 0,
                        is_library ? mapping.end : 0};
        const auto known = users.find(mapping.tgid);
        if (known != users.end() && known->second == user) {
            return;
        }
        users.insert_or_assign(mapping.tgid, user);
        if (users.size() % many_users == 0) {
            std::erase_if(users, [](const auto &entry) { return has_ended(entry.first); });
        }
        if (!counts_) {
            return;  // nothing depends on who uses it
        }
    }
    Surplus surplus;
    {
        const std::lock_guard lock(mutex_);
        const auto file = files_.find(mapping.file);
        // The link of an earlier process of this number is in no process any more.
        if (file != files_.end()) {
            if (auto earlier = file->second.own.extract(mapping.tgid)) {
                give_up_if(true, mapping.file, earlier.mapped(), surplus);
            }
        }
    }
    close(std::move(surplus));
    (void)settle(mapping.file);
}

std::vector<UprobeSet> LaunchProbes::remove(const FileId &id) {
    const std::lock_guard lock(mutex_);
    std::vector<UprobeSet> probes;
    if (auto file = files_.extract(id)) {
        probes.push_back(std::move(file.mapped().ends));
        probes.push_back(std::move(file.mapped().counting));
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

bool LaunchProbes::has_any(const Users &users, const std::set<std::uint32_t> &of) {
    return std::ranges::any_of(of, [&](std::uint32_t tgid) { return users.contains(tgid); });
}

bool LaunchProbes::is_seen(std::uint32_t tgid) {
    const std::lock_guard lock(mutex_);
    std::optional<bool> in_runtime;
    std::optional<bool> in_driver;
    for (const auto &[id, file] : files_) {
        const auto users = users_.find(id);
        if (users == users_.end() || !users->second.contains(tgid)) {
            continue;
        }
        auto &is_seen = file.is_driver ? in_driver : in_runtime;
        is_seen = is_seen.value_or(false) || !file.ends.is_empty() || !file.counting.is_empty() ||
                  file.own.contains(tgid);
    }
    // All launches come to the driver, and to a runtime only some.
    return in_driver.value_or(in_runtime.value_or(true));
}

bool LaunchProbes::has_no_ends(std::uint32_t tgid) {
    const std::lock_guard lock(mutex_);
    bool uses_any = false;
    for (const auto &[id, file] : files_) {
        const auto users = users_.find(id);
        if (users != users_.end() && users->second.contains(tgid)) {
            if (!file.ends.is_empty()) {
                return false;
            }
            uses_any = true;
        }
    }
    return uses_any;
}

void LaunchProbes::warn(std::string_view what, const Error &error) {
    if (warnings_.allow(now_on(CLOCK_MONOTONIC))) {
        log::warn(what, {{"probe", "cuda"}, {"reason", error.message}});
    }
}

LaunchLinks LaunchProbes::links_of(const FileId &id, const File &file) {
    Users &users = users_[id];
    if (!file.is_driver) {
        return has_any(users, wanted_.counted) && !has_any(users, wanted_.odd) &&
                       !has_any(users, wanted_.learned)
                   ? LaunchLinks::none
                   : LaunchLinks::ends;
    }
    if (!counts_) {
        return LaunchLinks::ends;
    }
    if (!has_any(users, wanted_.in_turns)) {
        return LaunchLinks::counting;
    }
    std::erase_if(users, [](const auto &entry) { return has_ended(entry.first); });
    if (users.size() <= max_own) {
        return LaunchLinks::own;
    }
    return has_any(users, wanted_.paused) ? LaunchLinks::none : LaunchLinks::counting;
}

Result<> LaunchProbes::attach_missing(const FileId &id, File &file, LaunchLinks links,
                                      const Users &users) {
    if (links == LaunchLinks::ends && file.ends.is_empty()) {
        auto ends =
            programs_.attach_again({file.fd.get(), id, file.fd.kept()}, file.places, std::nullopt);
        if (!ends) {
            return tl::unexpected(ends.error());
        }
        file.ends = std::move(*ends);
        log::debug("attached to both ends of kernel launches again",
                   {{"probe", "cuda"}, {"functions", file.ends.functions()}});
    }
    if (links == LaunchLinks::counting && file.counting.is_empty()) {
        auto counting = programs_.attach_counting({file.fd.get(), id, file.fd.kept()},
                                                  file.places.points, std::nullopt);
        if (!counting) {
            return tl::unexpected(counting.error());
        }
        file.counting = std::move(*counting);
        log::debug("attached to kernel launches where they enter the driver",
                   {{"probe", "cuda"}, {"functions", file.counting.functions()}});
    }
    if (links != LaunchLinks::own) {
        return {};
    }
    std::map<std::uint32_t, UprobeSet> all;  // or none
    for (const auto &[tgid, user] : users) {
        if (file.own.contains(tgid) || wanted_.paused.contains(tgid)) {
            continue;
        }
        auto own = programs_.attach_counting({file.fd.get(), id, file.fd.kept()},
                                             file.places.points, tgid);
        if (own) {
            log::debug("attached to the kernel launches of one process",
                       {{"probe", "cuda"}, {"pid", tgid}, {"functions", own->functions()}});
            all.emplace(tgid, std::move(*own));
        } else if (own.error().code != ESRCH) {  // it ends
            return tl::unexpected(own.error());
        }
    }
    file.own.merge(all);
    return {};
}

bool LaunchProbes::has_links(const File &file, LaunchLinks links, const Users &users) const {
    const bool has_own = std::ranges::all_of(users, [&](const auto &user) {
        return file.own.contains(user.first) != wanted_.paused.contains(user.first);
    });
    return file.ends.is_empty() == (links != LaunchLinks::ends) &&
           file.counting.is_empty() == (links != LaunchLinks::counting) &&
           (links == LaunchLinks::own ? has_own : file.own.empty());
}

void LaunchProbes::give_up_if(bool unwanted, const FileId &id, UprobeSet &probes,
                              Surplus &surplus) {
    if (unwanted && !probes.is_empty()) {
        closing_[id]++;
        surplus.emplace_back(id, std::exchange(probes, {}));
    }
}

// What is missing is attached before anything is taken away. Where that fails, all stays as it is.
bool LaunchProbes::settle(const FileId &id) {
    const std::lock_guard one_at_a_time(exchanging_);
    Surplus surplus;
    bool loses_ends = false;
    bool is_driver = false;
    {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find(id);
        if (found == files_.end()) {
            return true;
        }
        File &file = found->second;
        const LaunchLinks links = links_of(id, file);
        const Users &users = users_[id];
        if (!has_links(file, links, users)) {
            if (const auto free = ebpf::check_mapper_locks(id); !free) {
                warn(cannot_exchange, free.error());
                return false;
            }
        }
        programs_.begin_exchange(file.is_driver ? links : LaunchLinks::none);
        if (const auto attached = attach_missing(id, file, links, users); !attached) {
            programs_.end_exchange();
            warn(cannot_exchange, attached.error());
            return false;
        }
        if (!file.is_driver) {
            say_code(links == LaunchLinks::none, users);
        }
        loses_ends = links != LaunchLinks::ends && !file.ends.is_empty();
        is_driver = file.is_driver;
        if (loses_ends) {
            say_detached(is_driver, users);
        }
        give_up_if(links != LaunchLinks::ends, id, file.ends, surplus);
        give_up_if(links != LaunchLinks::counting, id, file.counting, surplus);
        for (auto own = file.own.begin(); own != file.own.end();) {
            const auto one = own++;
            if (links != LaunchLinks::own || !users.contains(one->first) ||
                wanted_.paused.contains(one->first)) {
                give_up_if(true, id, one->second, surplus);
                file.own.erase(one);
            }
        }
    }
    close(std::move(surplus));
    if (loses_ends) {
        const std::lock_guard lock(mutex_);
        say_detached(is_driver, users_[id]);  // what began before the last probe was closed
    }
    programs_.end_exchange();
    return true;
}

void LaunchProbes::say_detached(bool is_driver, const Users &users) const {
    const auto now = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
    for (const auto &[tgid, user] : users) {
        if (has_ended(tgid)) {
            continue;
        }
        cuda_detached times{};
        (void)bpf_map_lookup_elem(programs_.detaches_map(), &tgid, &times);
        (is_driver ? times.driver_ns : times.runtime_ns) = now;
        (void)bpf_map_update_elem(programs_.detaches_map(), &tgid, &times, BPF_ANY);
    }
}

bool LaunchProbes::may_have_ended(std::uint32_t tgid, bool is_driver, nanoseconds began) const {
    cuda_detached times{};
    return bpf_map_lookup_elem(programs_.detaches_map(), &tgid, &times) == 0 &&
           static_cast<std::uint64_t>(began.count()) <
               (is_driver ? times.driver_ns : times.runtime_ns);
}

void LaunchProbes::say_code(bool is_unseen, const Users &users) const {
    for (const auto &[tgid, user] : users) {
        const cuda_runtime_code code{user.code_start, user.code_end};
        if (is_unseen && code.start != code.end) {
            (void)bpf_map_update_elem(programs_.runtimes_map(), &tgid, &code, BPF_ANY);
        } else {
            (void)bpf_map_delete_elem(programs_.runtimes_map(), &tgid);
        }
    }
}

// Closing waits until no CPU can still run the program, so not with the lock.
void LaunchProbes::close(Surplus surplus) {
    if (surplus.empty()) {
        return;
    }
    for (auto &[id, probes] : surplus) {
        while (Fd link = probes.take_link()) {
            link.reset();
            if (programs_.mode() == ebpf::AttachMode::perf) {
                std::this_thread::sleep_for(pause_between_perf_events);
            }
        }
    }
    const std::lock_guard lock(mutex_);
    for (const auto &[id, probes] : surplus) {
        if (--closing_[id] == 0) {
            closing_.erase(id);
        }
    }
}

bool LaunchProbes::set(const Wanted &wanted) {
    std::vector<FileId> runtimes;
    std::vector<FileId> drivers;
    {
        const std::lock_guard lock(mutex_);
        wanted_ = wanted;
        counts_ = !wanted.counted.empty();
        for (const auto &[id, file] : files_) {
            (file.is_driver ? drivers : runtimes).push_back(id);
        }
    }
    // While a runtime has no probe, its launches are the driver's.
    bool are_settled = true;
    for (const FileId &id : runtimes) {
        are_settled = settle(id) && are_settled;
    }
    for (const FileId &id : drivers) {
        are_settled = settle(id) && are_settled;
    }
    return are_settled;
}

}  // namespace gpusnoop::probes
