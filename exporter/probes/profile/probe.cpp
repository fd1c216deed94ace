#include "exporter/probes/profile/probe.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "bpf/profile/profile.h"
#include "exporter/base/log.h"
#include "exporter/config/reader.h"
#include "exporter/ebpf/attach/kernel_hooks.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/profile/assemble.h"
#include "exporter/probes/profile/heap.h"
#include "exporter/probes/profile/python/processes.h"
#include "exporter/probes/profile/stacks.h"
#include "exporter/probes/profile/tables.h"
#include "exporter/system/machine.h"
#include "profile.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

struct NoFamilies {};
NoFamilies make_no_families(series::FamilySet & /*set*/) {
    return {};
}

class ProfileAggregator : public CountingAggregator<make_no_families> {
public:
    explicit ProfileAggregator(const SeriesSettings &settings)
        : CountingAggregator(settings, host_grace) {}

    [[nodiscard]] const ProcessIdentity &identity_of(const ProcessKey &key) {
        return processes_.of(key);
    }
};

class ProfileProbe final : public HostProbe<profile_bpf, ProfileAggregator>, public Profiler {
public:
    ProfileProbe(const config::Config &config, TracedProcessesPtr traced, ProfileSettings settings)
        : HostProbe("profile", config, std::move(traced)), settings_(std::move(settings)) {}

    void set_limit(const WorkLimit &limit) override;
    [[nodiscard]] Result<Profile> take() override;
    void end_slice(nanoseconds kept) override;
    [[nodiscard]] Result<Profile> past(nanoseconds duration, const ProfileFilter &filter) override;
    [[nodiscard]] Result<> check(const ProfileFilter &filter) const override;

private:
    Result<> configure_programs(profile_bpf &skeleton) override;
    std::vector<ProbeRing> rings(profile_bpf & /*skeleton*/) override { return {}; }
    Result<> attach(profile_bpf &skeleton) override;
    void tick(nanoseconds now) override {
        note_new();
        HostProbe::tick(now);
    }

    [[nodiscard]] Result<std::vector<ebpf::Link>> attach_type(profile_bpf &skeleton);
    void note_running();
    // Names what the table has and this has not yet, as long as its processes run.
    void note_new();
    [[nodiscard]] ProfileNames names() {
        return {.processes = processes_,
                .stacks = *stacks_,
                .cuda_function = traced().cuda().function_name};
    }
    [[nodiscard]] std::uint64_t samples_lost() const;
    [[nodiscard]] Profile profile_since(nanoseconds began, nanoseconds now) const;
    // Forgets what neither the slices nor this reading have.
    void forget_unused(const ProfileReading &current);

    const ProfileSettings settings_;
    WorkLimit limit_;
    std::vector<ebpf::Link> links_;
    std::vector<ebpf::UprobeSet> allocator_;  // of heap
    std::optional<ProfileTables> tables_;
    ProfiledProcesses processes_;
    std::unique_ptr<PythonProcesses> python_;
    std::unique_ptr<ProfiledStacks> stacks_;
    nanoseconds began_{};  // CLOCK_MONOTONIC; of the slice that is not over
    ProfileSlices slices_;
    // Of the slices that are over.
    std::uint64_t samples_lost_ = 0;
    std::uint64_t stacks_lost_ = 0;
};

Result<> ProfileProbe::configure_programs(profile_bpf &skeleton) {
    const auto &programs = skeleton.progs;
    ebpf::load_if(programs.prof_tick, settings_.type == ProfileType::cpu);
    ebpf::load_if(programs.prof_fault, settings_.type == ProfileType::page_faults);
    ebpf::load_if(programs.prof_switch, settings_.type == ProfileType::offcpu);
    if (const auto set = set_up_heap(skeleton, settings_); !set) {
        return set;
    }
    if (const int error = bpf_map__set_max_entries(skeleton.maps.prof_stacks, settings_.max_stacks);
        error != 0) {
        return fail_errno("set the size of the table of stacks", -error);
    }
    // Without the probe `cuda`, no thread is inside of a call.
    if (const Fd &threads = traced().cuda().times.threads; threads) {
        if (const int error = bpf_map__reuse_fd(skeleton.maps.cuda_threads, threads.get());
            error != 0) {
            return fail_errno("share the calls of threads", -error);
        }
    }
    return {};
}

Result<std::vector<ebpf::Link>> ProfileProbe::attach_type(profile_bpf &skeleton) {
    switch (settings_.type) {
        case ProfileType::cpu:
            return ebpf::run_at_cpu_events(
                skeleton.progs.prof_tick,
                {.config = PERF_COUNT_SW_CPU_CLOCK, .frequency = settings_.frequency});
        case ProfileType::page_faults:
            return ebpf::run_at_cpu_events(skeleton.progs.prof_fault,
                                           {.config = PERF_COUNT_SW_PAGE_FAULTS, .frequency = 0});
        case ProfileType::heap: {
            auto allocator = attach_to_allocator(skeleton, settings_.filter.pids.front());
            if (!allocator) {
                return tl::unexpected(allocator.error());
            }
            allocator_ = std::move(*allocator);
            return {};
        }
        case ProfileType::offcpu:
            break;
    }
    std::vector<ebpf::Link> links;
    links.emplace_back(bpf_program__attach(skeleton.progs.prof_switch));
    return links.front() ? Result<std::vector<ebpf::Link>>(std::move(links))
                         : fail_errno("attach to switches between threads");
}

Result<> ProfileProbe::attach(profile_bpf &skeleton) {
    tables_.emplace(skeleton);
    auto stacks = ProfiledStacks::start(
        {.addresses = [this](std::uint64_t stack) { return tables_->addresses(stack); },
         .kernel_function =
             [this](std::uint64_t address) { return tables_->kernel_function(address); },
         .is_wanted =
             [this](const ProcessKey &key) { return processes_.wants(settings_.filter, key); },
         .python = [this](
                       const ProcessKey &key,
                       std::span<const std::uint64_t> stack) { return python_->name(key, stack); },
         .begins_at_instruction = settings_.type != ProfileType::heap},
        settings_.max_bytes);
    if (!stacks) {
        return tl::unexpected(stacks.error());
    }
    stacks_ = std::move(*stacks);
    auto python = PythonProcesses::start(bpf_map__fd(skeleton.maps.prof_python));
    if (!python) {
        return tl::unexpected(python.error());
    }
    python_ = std::move(*python);
    set_limit(limit_);
    followed().on_record([this](const follow_record &record, const ProcessIdentity &process) {
        if (record.head.type == FOLLOW_STARTED) {
            processes_.started(process, record.root);
        }
    });
    followed().drain();
    note_running();
    began_ = now_on(CLOCK_MONOTONIC);
    auto links = attach_type(skeleton);
    if (!links) {
        return tl::unexpected(links.error());
    }
    links_ = std::move(*links);
    state().up(1, "sampling " + traced().describe_followed());
    return {};
}

void ProfileProbe::set_limit(const WorkLimit &limit) {
    limit_ = limit;
    if (stacks_ && python_) {
        stacks_->set_limit(limit);
        python_->set_limit(limit);
    }
}

Result<> ProfileProbe::check(const ProfileFilter &filter) const {
    if (filter.pids.empty() || processes_.knows(filter.pids.front())) {
        return {};
    }
    return fail("process " + std::to_string(filter.pids.front()) +
                    " is not followed: it is no GPU process, `targets` does not name it, and none "
                    "of these has started it",
                ESRCH);
}

void ProfileProbe::note_running() {
    processes_.note_running(followed(), [this](const ProcessKey &key) -> const ProcessIdentity & {
        return aggregator().identity_of(key);
    });
    std::vector<ProcessKey> running;
    for (const FollowedProcesses::Entry &entry : followed().running()) {
        if (processes_.wants(settings_.filter, entry.key)) {
            running.push_back(entry.key);
        }
    }
    python_->look_at(running);
}

void ProfileProbe::note_new() {
    followed().drain();
    note_running();
    const auto reading = tables_->read();
    if (!reading) {
        log::warn("cannot read the stacks", {{"reason", reading.error().message}});
        return;
    }
    stacks_->name(*reading);
}

std::uint64_t ProfileProbe::samples_lost() const {
    const Health now = health();
    return now.account.lost[LOST_table_full] + now.runs.skipped;
}

Profile ProfileProbe::profile_since(nanoseconds began, nanoseconds now) const {
    Profile profile;
    profile.type = settings_.type;
    profile.began = began + now_on(CLOCK_REALTIME) - now;
    profile.duration = now - began;
    profile.frequency = settings_.frequency;
    profile.samples_lost = samples_lost() - samples_lost_;
    profile.stacks_lost = tables_->stacks_lost() - stacks_lost_;
    return profile;
}

Result<Profile> ProfileProbe::take() {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    skeleton().bss->heap_is_over = true;
    note_new();  // before the probes are detached: that takes seconds, and names have only two
    allocator_.clear();
    links_.clear();  // the tables stay as they are now
    note_new();
    auto reading = tables_->read();
    if (!reading) {
        return tl::unexpected(reading.error());
    }
    if (const auto added = tables_->read_open(*reading, static_cast<std::uint64_t>(now.count()));
        !added) {
        return tl::unexpected(added.error());
    }
    stacks_->name(*reading);
    Profile profile = profile_since(began_, now);
    add_stacks(profile, *reading, settings_.filter, settings_.max_bytes, names());
    if (settings_.type == ProfileType::offcpu) {
        std::set<std::uint32_t> seen;
        for (const auto &[key, unused] : *reading) {
            seen.insert(key.tid);
        }
        PythonStacks python = python_->standing();
        add_motionless(profile, processes_, settings_.filter, seen, python, limit_);
    }
    return profile;
}

void ProfileProbe::end_slice(nanoseconds kept) {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    const std::uint32_t ended = tables_->begin_generation();
    note_new();
    auto reading = tables_->read();
    if (!reading) {
        return;  // note_new() has said so; the next slice has all of it
    }
    const auto after = std::ranges::partition(
        *reading, [&](const auto &one) { return one.first.generation <= ended; });
    const ProfileReading current(after.begin(), after.end());
    reading->erase(after.begin(), after.end());
    tables_->take_out(*reading);
    const std::uint64_t lost = samples_lost();
    const std::uint64_t stacks_lost = tables_->stacks_lost();
    slices_.add({.began = began_,
                 .ended = now,
                 .reading = std::move(*reading),
                 .samples_lost = lost - samples_lost_,
                 .stacks_lost = stacks_lost - stacks_lost_},
                now - kept);
    began_ = now;
    samples_lost_ = lost;
    stacks_lost_ = stacks_lost;
    forget_unused(current);
}

void ProfileProbe::forget_unused(const ProfileReading &current) {
    std::vector<const ProfileReading *> readings = slices_.readings();
    readings.push_back(&current);
    stacks_->keep_only(readings);
    std::set<ProcessKey> kept;
    for (const ProfileReading *reading : readings) {
        for (const auto &[key, unused] : *reading) {
            kept.insert(process_of(key));
        }
    }
    for (const FollowedProcesses::Entry &entry : followed().running()) {
        kept.insert(entry.key);
    }
    const auto is_kept = [&](const ProcessKey &key) { return kept.contains(key); };
    processes_.keep_only(is_kept);
    python_->keep_only(is_kept);
}

Result<Profile> ProfileProbe::past(nanoseconds duration, const ProfileFilter &filter) {
    note_new();
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    auto current = tables_->read();
    if (!current) {
        return tl::unexpected(current.error());
    }
    stacks_->name(*current);
    const auto slices = slices_.since(now - duration);
    Profile profile = profile_since(slices.empty() ? began_ : slices.front()->began, now);
    for (const ProfileSlice *slice : slices) {
        profile.samples_lost += slice->samples_lost;
        profile.stacks_lost += slice->stacks_lost;
    }
    add_stacks(profile, merged(slices, *current), filter, settings_.max_bytes, names());
    return profile;
}

}  // namespace

ProfilerAndProbe make_profiler(const config::Config &config, const TracedProcessesPtr &traced,
                               ProfileSettings settings) {
    auto probe = std::make_unique<ProfileProbe>(config, traced, std::move(settings));
    Profiler *const profiler = probe.get();
    return {std::move(probe), profiler};
}

using namespace std::chrono_literals;

void read_profile(config::Section profile, config::Config &config) {
    ProfileConfig value;
    profile.boolean("enabled", value.enabled);
    profile.duration("max_duration", value.max_duration, 1s, 1h);
    profile.integer("max_stacks", value.max_stacks, 256, 16384);
    profile.integer("continuous_frequency", value.continuous_frequency, 0, 199);
    profile.duration("keep", value.keep, 10s, 1h);
    profile.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
