#include "exporter/probes/frame/processes/target_processes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stop_token>
#include <vector>

#include "bpf/lib/processes/target.h"
#include "exporter/base/glob.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/attach/link.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/ebpf/maps/record.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/skeleton.h"
#include "exporter/probes/frame/processes/comm_pattern.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"
#include "targets.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

template <std::size_t N>
std::string text_of(const char (&bytes)[N]) {
    return {bytes, ::strnlen(bytes, N)};
}

// The globs that the BPF programs match themselves.
std::vector<target_pattern> patterns_of(const TargetsConfig &config) {
    std::vector<target_pattern> patterns;
    for (const std::string &glob : config.comms) {
        if (auto pattern = compile_comm_pattern(glob);
            pattern && patterns.size() < TARGET_PATTERNS) {
            patterns.push_back(*pattern);
        }
    }
    return patterns;
}

template <std::size_t N>
Result<> copy(const std::array<int, N> &descriptors, std::array<Fd, N> &to) {
    for (std::size_t i = 0; i < N; i++) {
        to[i] = Fd(::fcntl(descriptors[i], F_DUPFD_CLOEXEC, 3));
        if (!to[i]) {
            return fail_errno("duplicate a descriptor");
        }
    }
    return {};
}

}  // namespace

// Processes of the configuration: a thread keeps their table.
struct TargetProcesses::Tracker {
    static Result<std::unique_ptr<Tracker>> start(const TargetsConfig &config,
                                                  nanoseconds rescan_interval);

    void run(const std::stop_token &stop);
    void rescan();
    void on_exec(const target_exec_record &record);
    void classify(std::uint32_t tgid, nanoseconds started, std::uint32_t parent,
                  const std::string &comm, const std::string &container);
    void warn_of_losses();

    TargetsConfig config;
    nanoseconds rescan_interval{};
    ebpf::Skeleton<targets_bpf> skeleton;
    std::vector<ebpf::Link> links;  // detached before the skeleton goes
    std::unique_ptr<ebpf::Ring> execs;
    Fd stopping;
    std::uint64_t lost = 0;
    bool is_full = false;
    std::atomic<std::uint64_t> changes = 0;  // of the table, but for those of the programs
    std::jthread thread;                     // ends first
};

Result<std::unique_ptr<TargetProcesses::Tracker>> TargetProcesses::Tracker::start(
    const TargetsConfig &config, nanoseconds rescan_interval) {
    auto following = std::make_unique<Tracker>();
    following->config = config;
    following->rescan_interval = rescan_interval;
    following->skeleton.reset(targets_bpf::open());
    if (!following->skeleton) {
        return fail_errno("open the BPF programs that follow the processes of targets");
    }
    const std::vector<target_pattern> patterns = patterns_of(config);
    following->skeleton->rodata->pattern_count = static_cast<std::uint32_t>(patterns.size());
    const std::size_t parents = std::min<std::size_t>(config.parents.size(), TARGET_PARENTS);
    std::copy_n(config.parents.begin(), parents, following->skeleton->rodata->parents);
    following->skeleton->rodata->parent_count = static_cast<std::uint32_t>(parents);
    if (const int error = targets_bpf::load(following->skeleton.get()); error != 0) {
        return fail_errno("load the BPF programs that follow the processes of targets", -error);
    }
    for (std::uint32_t i = 0; i < patterns.size(); i++) {
        if (bpf_map_update_elem(bpf_map__fd(following->skeleton->maps.target_patterns), &i,
                                &patterns[i], BPF_ANY) != 0) {
            return fail_errno("enter a name of targets");
        }
    }
    const auto &programs = following->skeleton->progs;
    auto execs = ebpf::Ring::open(
        bpf_map__fd(following->skeleton->maps.target_events), [self = following.get()](auto bytes) {
            if (const auto record = ebpf::decode<target_exec_record>(bytes)) {
                self->on_exec(*record);
            }
        });
    if (!execs) {
        return tl::unexpected(execs.error());
    }
    following->execs = std::move(*execs);
    following->stopping = Fd(::eventfd(0, EFD_CLOEXEC));
    if (!following->stopping) {
        return fail_errno("eventfd");
    }
    for (const bpf_program *program :
         {programs.target_exit, programs.target_fork, programs.target_exec}) {
        ebpf::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach to the tracepoint of ") +
                              bpf_program__name(program));
        }
        following->links.push_back(std::move(link));
    }
    following->rescan();
    following->thread =
        std::jthread([self = following.get()](const std::stop_token &stop) { self->run(stop); });
    return following;
}

void TargetProcesses::Tracker::run(const std::stop_token &stop) {
    const std::stop_callback wake(stop, [this] { ::eventfd_write(stopping.get(), 1); });
    nanoseconds looked = now_on(CLOCK_MONOTONIC);
    while (!stop.stop_requested()) {
        const nanoseconds until = looked + rescan_interval - now_on(CLOCK_MONOTONIC);
        std::array<pollfd, 2> fds = {
            {{bpf_map__fd(skeleton->maps.target_events), POLLIN, 0}, {stopping.get(), POLLIN, 0}}};
        const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until).count();
        ::poll(fds.data(), fds.size(), static_cast<int>(std::max<decltype(ms)>(ms, 0)));
        execs->drain_to(execs->produced());
        if (now_on(CLOCK_MONOTONIC) - looked >= rescan_interval) {
            rescan();
            looked = now_on(CLOCK_MONOTONIC);
        }
        warn_of_losses();
    }
}

void TargetProcesses::Tracker::warn_of_losses() {
    const std::uint64_t now = __atomic_load_n(&skeleton->bss->targets_lost, __ATOMIC_RELAXED) +
                              __atomic_load_n(&skeleton->bss->execs_lost, __ATOMIC_RELAXED);
    if (now != std::exchange(lost, now)) {
        log::warn("some configured processes are not traced: too many started at once",
                  {{"processes", now}});
    }
}

void TargetProcesses::Tracker::rescan() {
    const std::vector<std::uint32_t> running = processes::all_processes();
    for (const std::uint32_t tgid : running) {
        const auto started = processes::start_time(tgid);
        if (started) {
            classify(tgid, *started, processes::parent_of(tgid).value_or(0),
                     processes::name_of(tgid),
                     processes::cgroup_owner_of(tgid, true).container.container_id);
        }
    }
    // A fallback for the BPF programs, which delete ended processes.
    std::vector<std::uint32_t> gone;
    const int map = bpf_map__fd(skeleton->maps.target_procs);
    (void)ebpf::for_each<std::uint32_t, target>(map, [&](std::uint32_t tgid, const target &one) {
        const nanoseconds started(static_cast<std::int64_t>(one.start_boottime_ns));
        if (processes::presence(tgid, started) == processes::Presence::gone) {
            gone.push_back(tgid);
        }
    });
    for (const std::uint32_t tgid : gone) {
        bpf_map_delete_elem(map, &tgid);
    }
}

void TargetProcesses::Tracker::on_exec(const target_exec_record &record) {
    const auto &identity = record.identity;
    const auto container = owner_of(record.cgroup).container;
    classify(record.tgid, nanoseconds(static_cast<std::int64_t>(identity.start_boottime_ns)),
             identity.ppid, text_of(identity.comm), container.container_id);
}

void TargetProcesses::Tracker::classify(std::uint32_t tgid, nanoseconds started,
                                        std::uint32_t parent, const std::string &comm,
                                        const std::string &container) {
    const bool by_pid = std::ranges::find(config.pids, tgid) != config.pids.end() ||
                        std::ranges::find(config.parents, parent) != config.parents.end();
    const bool by_name = matches_any(config.comms, comm) ||
                         std::ranges::any_of(config.containers, [&](const std::string &id) {
                             return container.starts_with(id);
                         });
    const int map = bpf_map__fd(skeleton->maps.target_procs);
    if (!by_pid && !by_name) {
        changes += bpf_map_delete_elem(map, &tgid) == 0 ? 1 : 0;
        return;
    }
    target fresh{.since_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count()),
                 .start_boottime_ns = static_cast<std::uint64_t>(started.count()),
                 .inherited = by_name ? 1U : 0U};
    target known{};
    if (bpf_map_lookup_elem(map, &tgid, &known) == 0) {
        const auto apart = known.start_boottime_ns > fresh.start_boottime_ns
                               ? known.start_boottime_ns - fresh.start_boottime_ns
                               : fresh.start_boottime_ns - known.start_boottime_ns;
        if (apart < TARGET_CLOCK_TICK_NS) {
            if (known.inherited == fresh.inherited) {
                return;
            }
            fresh.since_ns = known.since_ns;
        }
    }
    if (bpf_map_update_elem(map, &tgid, &fresh, BPF_ANY) != 0) {
        if (!std::exchange(is_full, true)) {
            log::warn("a process that the configuration names is not traced",
                      {{"pid", tgid}, {"reason", std::strerror(errno)}});
        }
        return;
    }
    changes++;
    // It may have ended before it was entered. Then no BPF program deletes it.
    if (processes::presence(tgid, started) == processes::Presence::gone) {
        bpf_map_delete_elem(map, &tgid);
    }
}

TargetProcesses::TargetProcesses(TargetsConfig config, nanoseconds rescan_interval,
                                 Following following)
    : config_(std::move(config)), rescan_interval_(rescan_interval), following_(following) {}
TargetProcesses::~TargetProcesses() = default;

bool TargetProcesses::names_any() const {
    return probes::names_any(config_);
}

std::uint32_t TargetProcesses::kinds() const {
    if (config_.all_processes) {
        return TARGET_EVERYTHING;
    }
    std::uint32_t kinds = 0;
    kinds |= config_.gpu_processes ? std::uint32_t{TARGET_GPU_PROCESSES} : 0U;
    kinds |= names_any() ? std::uint32_t{TARGET_CONFIGURED} : 0U;
    return kinds;
}

Result<> TargetProcesses::share_gpu_processes(int table_fd, int filter_fd) {
    gpu_processes_ = Fd(::fcntl(table_fd, F_DUPFD_CLOEXEC, 3));
    gpu_process_filter_ = Fd(::fcntl(filter_fd, F_DUPFD_CLOEXEC, 3));
    return gpu_processes_ && gpu_process_filter_ ? Result<>()
                                                 : fail_errno("duplicate a descriptor");
}

Result<> TargetProcesses::start() {
    const std::lock_guard lock(mutex_);
    if (!started_) {
        started_.emplace();
        if (names_any()) {
            auto following = Tracker::start(config_, rescan_interval_);
            if (following) {
                tracker_ = std::move(*following);
            } else {
                *started_ = tl::unexpected(following.error());
            }
        }
    }
    return *started_;
}

Result<> TargetProcesses::share_followed(const FollowMaps &maps, CudaFunctionName function_name) {
    function_name_ = function_name;
    return copy<5>({maps.processes, maps.filter, maps.events, maps.counts, maps.refused},
                   follow_maps_);
}

Result<> TargetProcesses::share_times(const TimeMaps &maps) {
    gpu_name_ = maps.gpu_name;
    unseen_launches_ = maps.unseen_launches;
    return copy<6>({maps.threads, maps.times, maps.past, maps.gaps, maps.file_waits, maps.devices},
                   time_maps_);
}

Result<> TargetProcesses::share_calls_with(TargetProcesses &other) const {
    if (!gpu_processes_) {
        return names_any() ? Result<>()
                           : fail(
                                 "no process is followed: the probe cuda is not up, and `targets` "
                                 "names none");
    }
    if (auto shared = other.share_gpu_processes(gpu_processes_.get(), gpu_process_filter_.get());
        !shared) {
        return shared;
    }
    if (function_name_ != nullptr && time_maps_[0]) {
        other.function_name_ = function_name_;
        other.time_maps_[0] = Fd(::fcntl(time_maps_[0].get(), F_DUPFD_CLOEXEC, 3));
        return other.time_maps_[0] ? Result<>() : fail_errno("duplicate a descriptor");
    }
    return {};
}

Result<FollowedProcesses *> TargetProcesses::follow() {
    if (!followed_) {
        if (auto started = start(); !started) {
            return tl::unexpected(started.error());
        }
        auto followed = FollowedProcesses::start(
            {.descendants = following_.descendants,
             .except = following_.except,
             .looks_always = following_.looks_for_gpu_processes,
             .rescan_interval = rescan_interval_,
             .of_cuda = {follow_maps_[0].get(), follow_maps_[1].get(), follow_maps_[2].get(),
                         follow_maps_[3].get(), follow_maps_[4].get()}},
            *this);
        if (!followed) {
            return tl::unexpected(followed.error());
        }
        followed_ = std::move(*followed);
    }
    return followed_.get();
}

std::uint64_t TargetProcesses::changes() const {
    return tracker_ ? tracker_->changes.load() : 0;
}

Result<> TargetProcesses::share_maps_with(bpf_map *gpu_processes, bpf_map *gpu_process_filter,
                                          bpf_map *targets) const {
    // The map must exist even if no process is ever entered.
    const auto give = [](bpf_map *map, int fd) {
        return fd >= 0 ? bpf_map__reuse_fd(map, fd) : bpf_map__set_max_entries(map, 1);
    };
    int error = give(gpu_processes, gpu_processes_.get());
    if (error == 0) {
        error = give(gpu_process_filter, gpu_process_filter_.get());
    }
    if (error == 0) {
        error = give(targets, tracker_ ? bpf_map__fd(tracker_->skeleton->maps.target_procs) : -1);
    }
    return error == 0 ? Result<>() : fail_errno("share the tables of processes to trace", -error);
}

std::string TargetProcesses::describe() const {
    if (config_.all_processes) {
        return "all processes";
    }
    if (names_any()) {
        return config_.gpu_processes ? "GPU processes and those that the configuration names"
                                     : "the processes that the configuration names";
    }
    return config_.gpu_processes ? "GPU processes" : "no process: targets names none";
}

std::string TargetProcesses::describe_followed() const {
    if (!config_.gpu_processes && !names_any()) {
        return "no process: targets names none";
    }
    std::string text = config_.gpu_processes ? "GPU processes" : "";
    if (names_any()) {
        text += text.empty() ? "the processes that the configuration names"
                             : " and those that the configuration names";
    }
    return text + (following_.descendants ? ", and what they start" : "");
}

}  // namespace gpusnoop::probes
