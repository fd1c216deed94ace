#include "exporter/probes/frame/processes/followed_processes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <set>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/object.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"
#include "follow.skel.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

constexpr std::chrono::seconds look_interval{1};

// Of each probe. A check reads a file in /proc, 10 to 40 us. All 16384 at once would keep scrapes
// waiting.
constexpr std::size_t checks_per_drain = 16;

nanoseconds to_time(std::uint64_t ns) {
    return nanoseconds(static_cast<std::int64_t>(ns));
}

Result<> use_maps(follow_bpf &skeleton, const FollowMaps &maps) {
    const std::pair<bpf_map *, const Fd &> all[] = {{skeleton.maps.follow_procs, maps.processes},
                                                    {skeleton.maps.follow_filter, maps.filter},
                                                    {skeleton.maps.follow_events, maps.events},
                                                    {skeleton.maps.follow_counts, maps.counts},
                                                    {skeleton.maps.follow_refused, maps.refused}};
    for (const auto &[map, fd] : all) {
        if (const int error = fd ? bpf_map__reuse_fd(map, fd.get()) : 0; error != 0) {
            return fail_errno("share the table of followed processes", -error);
        }
    }
    return {};
}

}  // namespace

std::string_view role_name(std::uint32_t reasons) {
    return followed_role_names.at(
        (reasons & (FOLLOWED_CUDA | FOLLOWED_NAMED)) != 0 ? FOLLOWED_GPU : FOLLOWED_WORKER);
}

struct FollowedProcesses::Loaded {
    ebpf::Skeleton<follow_bpf> skeleton;
    std::vector<ebpf::Link> links;  // detached before the skeleton goes
    Fd find;                        // the iterator
    std::unique_ptr<ebpf::Ring> ring;
    std::size_t cpus = 0;
};

FollowedProcesses::FollowedProcesses(std::unique_ptr<Loaded> loaded, const Settings &settings,
                                     const TargetProcesses &targets)
    : loaded_(std::move(loaded)),
      rescan_interval_(settings.rescan_interval),
      looks_always_(settings.looks_always),
      targets_(targets) {}
FollowedProcesses::~FollowedProcesses() = default;

Result<std::unique_ptr<FollowedProcesses>> FollowedProcesses::start(const Settings &settings,
                                                                    const TargetProcesses &targets,
                                                                    const FollowMaps &of_cuda) {
    const auto cpus = ebpf::possible_cpus();
    if (!cpus) {
        return tl::unexpected(cpus.error());
    }
    auto loaded = std::make_unique<Loaded>();
    loaded->cpus = *cpus;
    loaded->skeleton.reset(follow_bpf::open());
    if (!loaded->skeleton) {
        return fail_errno("open the BPF programs that follow processes");
    }
    follow_bpf &skeleton = *loaded->skeleton;
    skeleton.rodata->follow_descendants = settings.descendants;
    skeleton.rodata->exporter_tgid =
        settings.except != 0 ? settings.except : static_cast<std::uint32_t>(::getpid());
    ebpf::grow_on_demand(skeleton.maps.follow_procs);
    if (auto used = use_maps(skeleton, of_cuda); !used) {
        return tl::unexpected(used.error());
    }
    if (auto shared = targets.share_maps_with(skeleton); !shared) {
        return tl::unexpected(shared.error());
    }
    if (const int error = follow_bpf::load(&skeleton); error != 0) {
        return fail_errno("load the BPF programs that follow processes", -error);
    }
    const auto &programs = skeleton.progs;
    for (const bpf_program *program :
         {programs.follow_free, programs.follow_exit, programs.follow_exec, programs.follow_fork}) {
        ebpf::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach the BPF program ") + bpf_program__name(program));
        }
        loaded->links.push_back(std::move(link));
    }
    auto find = ebpf::link_iterator(bpf_program__fd(programs.follow_find));
    if (!find) {
        return tl::unexpected(find.error());
    }
    loaded->find = std::move(*find);
    std::unique_ptr<FollowedProcesses> all(
        new FollowedProcesses(std::move(loaded), settings, targets));
    auto ring = ebpf::Ring::open(bpf_map__fd(skeleton.maps.follow_events),
                                 [self = all.get()](auto bytes) { self->apply(bytes); });
    if (!ring) {
        return tl::unexpected(ring.error());
    }
    all->loaded_->ring = std::move(*ring);
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    all->begin_checks(now);
    all->check(all->unchecked_.size(), now);
    if (auto found = all->find_running(); !found) {
        return tl::unexpected(found.error());
    }
    return all;
}

Result<> FollowedProcesses::share_maps_with(bpf_map *processes, bpf_map *filter) const {
    const auto &maps = loaded_->skeleton->maps;
    int error = bpf_map__reuse_fd(processes, bpf_map__fd(maps.follow_procs));
    if (error == 0) {
        error = bpf_map__reuse_fd(filter, bpf_map__fd(maps.follow_filter));
    }
    return error == 0 ? Result<>() : fail_errno("share the table of followed processes", -error);
}

FollowedProcesses::Known &FollowedProcesses::know(const ProcessKey &key, nanoseconds started) {
    const auto [found, is_new] = known_.try_emplace(key);
    if (is_new) {
        ProcessIdentity &identity = found->second.identity;
        identity.key = key;
        (void)look_up(identity);
        if (started != nanoseconds::zero()) {
            identity.started = started;
        }
    }
    return found->second;
}

void FollowedProcesses::apply(std::span<const std::byte> bytes) {
    follow_record record{};
    if (const auto start = ebpf::decode<follow_start_record>(bytes)) {
        record = start->head;
        Known &known = known_[{record.head.tgid, record.head.since_ns}];
        known.identity.key = {record.head.tgid, record.head.since_ns};
        take(known.identity, start->identity, &start->details);
        (void)look_up(known.identity);
    } else if (const auto other = ebpf::decode<follow_record>(bytes)) {
        record = *other;
    } else {
        return;
    }
    Known &known = know({record.head.tgid, record.head.since_ns});
    if (record.head.type != FOLLOW_STARTED && record.head.type != FOLLOW_PROMOTED) {
        known.ended = to_time(record.head.at_ns);
    }
    for (const OnRecord &use : users_) {
        use(record, known.identity);
    }
}

FollowedProcesses::Entries FollowedProcesses::entries() const {
    Entries all;
    const auto read = ebpf::for_each_lookup<std::uint32_t, followed>(
        bpf_map__fd(loaded_->skeleton->maps.follow_procs), FOLLOWED_MAX_PROCESSES,
        [&](std::uint32_t tgid, const followed &entry) { all.emplace_back(tgid, entry); });
    if (!read) {
        log::warn("cannot read the table of followed processes",
                  {{"reason", read.error().message}});
    }
    return all;
}

std::vector<FollowedProcesses::Entry> FollowedProcesses::running() const {
    std::vector<Entry> running;
    for (const auto &[tgid, entry] : entries()) {
        if (entry.reasons != 0 && entry.ended_ns == 0) {
            running.push_back({.key = {tgid, entry.since_ns},
                               .started = to_time(entry.start_boottime_ns),
                               .reasons = entry.reasons,
                               .root = entry.root});
        }
    }
    return running;
}

bool FollowedProcesses::has_any() const {
    std::uint32_t tgid = 0;
    return bpf_map_get_next_key(bpf_map__fd(loaded_->skeleton->maps.follow_procs), nullptr,
                                &tgid) == 0;
}

// Twice: the first time finds those that descendants are found by.
Result<> FollowedProcesses::find_running() {
    for (int times = 0; times < 2; times++) {
        if (auto ran = ebpf::read_iterator(loaded_->find.get(), 1, [](auto) {}); !ran) {
            return ran;
        }
    }
    // They have no record that says who they are, and can end at any time.
    for (const Entry &entry : running()) {
        (void)know(entry.key, entry.started);
    }
    return {};
}

void FollowedProcesses::drain() {
    loaded_->ring->drain_to(loaded_->ring->produced());
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    check(checks_per_drain, now);
    if (now - looked_ >= look_interval) {
        looked_ = now;
        look(now);
    }
}

void FollowedProcesses::look(nanoseconds now) {
    const follow_counts counted = counts();
    if (const std::uint64_t news = counted.gpu_processes + targets_.changes();
        std::exchange(news_, news) != news || looks_always_) {
        if (auto found = find_running(); !found) {
            log::warn("cannot scan for processes to follow", {{"reason", found.error().message}});
        }
    }
    if (counted.table_full > 0 && !std::exchange(is_full_, true)) {
        log::warn("some processes are not followed: too many are running",
                  {{"most", FOLLOWED_MAX_PROCESSES}});
    }
    if (unchecked_.empty() && now - rescanned_ >= rescan_interval_) {
        rescanned_ = now;
        begin_checks(now);
    }
    std::erase_if(known_, [&](const auto &known) {
        return known.second.ended && *known.second.ended + kept_after_end <= now;
    });
}

// Processes can end unseen: the programs did not run then, or their record found no room.
void FollowedProcesses::begin_checks(nanoseconds now) {
    std::set<ProcessKey> followed;
    unchecked_ = entries();
    for (const auto &[tgid, entry] : unchecked_) {
        if (entry.reasons != 0 && entry.ended_ns == 0) {
            followed.insert({tgid, entry.since_ns});
        }
    }
    for (auto &[key, known] : known_) {
        if (!known.ended && !followed.contains(key)) {
            known.ended = now;
        }
    }
}

void FollowedProcesses::check(std::size_t most, nanoseconds now) {
    for (; most > 0 && !unchecked_.empty(); most--) {
        const auto [tgid, entry] = unchecked_.back();
        unchecked_.pop_back();
        if (processes::presence(tgid, to_time(entry.start_boottime_ns)) !=
            processes::Presence::gone) {
            continue;
        }
        // Another process may have its number and its place by now.
        const int table = bpf_map__fd(loaded_->skeleton->maps.follow_procs);
        followed now_there{};
        if (bpf_map_lookup_elem(table, &tgid, &now_there) == 0 &&
            now_there.start_boottime_ns == entry.start_boottime_ns) {
            bpf_map_delete_elem(table, &tgid);
        }
        const auto found = known_.find({tgid, entry.since_ns});
        if (found != known_.end() && !found->second.ended) {
            found->second.ended = now;
        }
    }
}

bool FollowedProcesses::identify(ProcessIdentity &identity) {
    const Known &known = know(identity.key);
    identity = known.identity;
    return !known.ended;
}

bool FollowedProcesses::knows(const ProcessKey &key) const {
    if (known_.contains(key)) {
        return true;
    }
    followed entry{};
    if (bpf_map_lookup_elem(bpf_map__fd(loaded_->skeleton->maps.follow_procs), &key.tgid, &entry) !=
            0 ||
        entry.since_ns != key.since_ns || entry.reasons == 0) {
        return false;
    }
    // The entry stays until the parent has asked for the exit code, which it may never do.
    return entry.ended_ns == 0 ||
           to_time(entry.ended_ns) + kept_after_end > now_on(CLOCK_MONOTONIC);
}

void FollowedProcesses::end_gone(ProcessTableBase &table, nanoseconds now) const {
    for (const auto &[key, started] : table.running()) {
        const auto found = known_.find(key);
        if (found == known_.end()) {
            table.end(key, now);
        } else if (found->second.ended) {
            table.end(key, *found->second.ended);
        }
    }
}

follow_counts FollowedProcesses::counts() const {
    follow_counts sum{};
    std::vector<follow_counts> per_cpu(loaded_->cpus);
    const std::uint32_t zero = 0;
    if (bpf_map_lookup_elem(bpf_map__fd(loaded_->skeleton->maps.follow_counts), &zero,
                            per_cpu.data()) == 0) {
        for (const follow_counts &one : per_cpu) {
            sum.entered += one.entered;
            sum.events += one.events;
            sum.ring_full += one.ring_full;
            sum.table_full += one.table_full;
            sum.gpu_processes += one.gpu_processes;
        }
    }
    return sum;
}

void FollowedProcesses::add_lost(probe_account &account) const {
    const std::uint64_t lost = counts().table_full;
    account.entered += lost;
    account.lost[LOST_process_table] += lost;
}

}  // namespace gpusnoop::probes
