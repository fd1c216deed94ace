#include "exporter/probes/profile/probe.h"

#include <bpf/bpf.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "bpf/profile/profile.h"
#include "exporter/base/glob.h"
#include "exporter/base/log.h"
#include "exporter/base/read_text.h"
#include "exporter/ebpf/cpu_samples.h"
#include "exporter/ebpf/hash_map.h"
#include "exporter/ebpf/kallsyms.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/counting_aggregator.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/system/machine.h"
#include "exporter/trace/lines.h"
#include "exporter/trace/stack_names.h"
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
    ProfileProbe(const config::Config &config, TargetProcessesPtr targets, ProfileSettings settings)
        : HostProbe("profile", config, std::move(targets)), settings_(std::move(settings)) {}

    [[nodiscard]] Result<Profile> take() override;

private:
    struct Known {
        processes::ProcessNames names;
        std::uint32_t root = 0;  // as in struct followed
    };
    using Reading = std::vector<std::pair<profile_key, profile_count>>;

    Result<> configure_programs(profile_bpf &skeleton) override;
    std::vector<ProbeRing> rings(profile_bpf & /*skeleton*/) override { return {}; }
    Result<> attach(profile_bpf &skeleton) override;
    void tick(nanoseconds now) override {
        note_new();
        HostProbe::tick(now);
    }

    [[nodiscard]] Result<std::vector<ebpf::Link>> attach_type(profile_bpf &skeleton);
    // Names what the table has and this has not yet, as long as its processes run.
    void note_new();
    void note_running();
    void name_stacks(const Reading &reading);
    [[nodiscard]] Result<Reading> read();
    // The times off the CPU that are not over.
    [[nodiscard]] Result<> add_open(Reading &reading, std::uint64_t now_ns);
    void add_motionless(Profile &profile, const Reading &reading) const;
    [[nodiscard]] std::vector<std::uint64_t> addresses_of(std::uint64_t stack);
    [[nodiscard]] bool wants(const ProcessKey &key) const;
    [[nodiscard]] ProfiledStack stack_of(const profile_key &key, const profile_count &count);

    const ProfileSettings settings_;
    std::vector<ebpf::Link> links_;
    std::unique_ptr<trace::StackNames> stack_names_;
    ebpf::KernelFunctions kernel_;
    nanoseconds began_{};  // CLOCK_MONOTONIC
    std::map<ProcessKey, Known> known_;
    std::map<std::pair<ProcessKey, std::uint64_t>, std::vector<symbols::Frame>> stacks_;
};

ProcessKey key_of(const profile_key &key) {
    return {key.tgid, key.since_ns};
}

Result<> ProfileProbe::configure_programs(profile_bpf &skeleton) {
    const auto &programs = skeleton.progs;
    ebpf::load_if(programs.prof_tick, settings_.type == ProfileType::cpu);
    ebpf::load_if(programs.prof_fault, settings_.type == ProfileType::page_faults);
    ebpf::load_if(programs.prof_switch, settings_.type == ProfileType::offcpu);
    // Without the probe `cuda`, no thread is inside of a call.
    if (const int threads = targets().times().threads; threads >= 0) {
        if (const int error = bpf_map__reuse_fd(skeleton.maps.cuda_threads, threads); error != 0) {
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
        case ProfileType::offcpu:
            break;
    }
    std::vector<ebpf::Link> links;
    links.emplace_back(bpf_program__attach(skeleton.progs.prof_switch));
    return links.front() ? Result<std::vector<ebpf::Link>>(std::move(links))
                         : fail_errno("attach to switches between threads");
}

Result<> ProfileProbe::attach(profile_bpf &skeleton) {
    auto names = trace::StackNames::start();
    if (!names) {
        return tl::unexpected(names.error());
    }
    stack_names_ = std::move(*names);
    if (auto kernel = ebpf::KernelFunctions::read()) {
        kernel_ = std::move(*kernel);
    } else {
        log::warn("cannot name functions of the kernel", {{"reason", kernel.error().message}});
    }
    followed().on_record([this](const follow_record &record, const ProcessIdentity &process) {
        if (record.head.type == FOLLOW_STARTED) {
            known_.insert_or_assign(process.key,
                                    Known{.names = trace::printable(process), .root = record.root});
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
    state().up(1, "sampling " + targets().describe_followed());
    return {};
}

// Those that ran before the profile; the records have those that begin.
void ProfileProbe::note_running() {
    for (const FollowedProcesses::Entry &entry : followed().running()) {
        known_.try_emplace(entry.key,
                           Known{.names = trace::printable(aggregator().identity_of(entry.key)),
                                 .root = entry.root});
    }
}

Result<ProfileProbe::Reading> ProfileProbe::read() {
    Reading reading;
    const auto read = ebpf::for_each<profile_key, profile_count>(
        bpf_map__fd(skeleton().maps.prof_counts),
        [&](const profile_key &key, const profile_count &count) {
            reading.emplace_back(key, count);
        });
    return read ? Result<Reading>(std::move(reading)) : tl::unexpected(read.error());
}

std::vector<std::uint64_t> ProfileProbe::addresses_of(std::uint64_t stack) {
    std::vector<std::uint64_t> frames(PROFILE_STACK_FRAMES);
    if (stack == 0 ||
        bpf_map_lookup_elem(bpf_map__fd(skeleton().maps.prof_stacks), &stack, frames.data()) != 0) {
        return {};
    }
    frames.erase(std::ranges::find(frames, 0U), frames.end());
    return frames;
}

void ProfileProbe::name_stacks(const Reading &reading) {
    std::vector<trace::StackNames::Stack> asked;
    std::vector<std::pair<ProcessKey, std::uint64_t>> of;
    for (const auto &[key, unused] : reading) {
        const std::pair<ProcessKey, std::uint64_t> stack{key_of(key), key.user};
        if (key.user == 0 || !wants(key_of(key)) || !stacks_.try_emplace(stack).second) {
            continue;
        }
        asked.push_back({.process = {key.tgid, key.since_ns},
                         .code_start = 0,
                         .addresses = addresses_of(key.user)});
        of.push_back(stack);
    }
    auto named = stack_names_->name(asked);
    for (std::size_t i = 0; i < of.size(); i++) {
        named[i].resize(asked[i].addresses.size());  // those without a name, too
        stacks_[of[i]] = std::move(named[i]);
    }
    stack_names_->forget_old();
}

void ProfileProbe::note_new() {
    followed().drain();
    const auto reading = read();
    if (!reading) {
        log::warn("cannot read the stacks", {{"reason", reading.error().message}});
        return;
    }
    name_stacks(*reading);
}

bool ProfileProbe::wants(const ProcessKey &key) const {
    const auto known = known_.find(key);
    if (known == known_.end()) {
        return false;
    }
    const auto matches = [&](std::uint32_t pid, const std::string &comm) {
        return (settings_.pids.empty() ||
                std::ranges::find(settings_.pids, pid) != settings_.pids.end()) &&
               (settings_.comm.empty() || matches_glob(settings_.comm, comm));
    };
    if (matches(key.tgid, known->second.names.comm)) {
        return true;
    }
    return std::ranges::any_of(known_, [&](const auto &other) {
        return other.first.tgid == known->second.root &&
               matches(other.first.tgid, other.second.names.comm);
    });
}

Result<> ProfileProbe::add_open(Reading &reading, std::uint64_t now_ns) {
    return ebpf::for_each<std::uint32_t, profile_off>(
        bpf_map__fd(skeleton().maps.prof_off), [&](std::uint32_t /*tid*/, const profile_off &off) {
            if (now_ns > off.since_ns) {
                reading.emplace_back(off.key, profile_count{1, now_ns - off.since_ns});
            }
        });
}

ProfiledStack ProfileProbe::stack_of(const profile_key &key, const profile_count &count) {
    ProfiledStack stack;
    stack.process = known_.at(key_of(key)).names;
    stack.pid = key.tgid;
    stack.tid = key.tid;
    stack.thread =
        trace::printable({key.comm, ::strnlen(key.comm, sizeof(key.comm))}, trace::max_text_bytes);
    if (key.function != 0) {
        const auto function_name = targets().cuda_function_name();
        stack.cuda_call = function_name(static_cast<std::uint16_t>(key.function - 1));
    }
    if (const auto found = stacks_.find({key_of(key), key.user}); found != stacks_.end()) {
        stack.frames = found->second;
    }
    if (key.is_ready != 0) {
        stack.kernel_frames.emplace_back("[waits for a CPU]");
    }
    for (const std::uint64_t address : addresses_of(key.kernel)) {
        const std::string_view name = kernel_.at(address);
        // The profile's own program at the switch is no part of what the thread does.
        if (!name.starts_with("bpf_prog_") && !name.starts_with("bpf_trace_run")) {
            stack.kernel_frames.emplace_back(name.empty() ? "[unknown]" : name);
        }
    }
    stack.samples = count.samples;
    stack.ns = count.ns;
    return stack;
}

// Threads that were off the CPU before, and still are: nobody has seen where.
void ProfileProbe::add_motionless(Profile &profile, const Reading &reading) const {
    std::set<std::uint32_t> seen;
    for (const auto &[key, unused] : reading) {
        seen.insert(key.tid);
    }
    for (const auto &[key, known] : known_) {
        std::error_code error;
        const std::string tasks = "/proc/" + std::to_string(key.tgid) + "/task";
        if (!wants(key)) {
            continue;
        }
        for (const auto &entry : std::filesystem::directory_iterator(tasks, error)) {
            const std::string tid = entry.path().filename();
            const auto text = read_text(entry.path() / "stat", 512).value_or("");
            const std::size_t state = text.rfind(") ");
            if (state == std::string::npos || text[state + 2] == 'R' || text[state + 2] == 'Z' ||
                seen.contains(static_cast<std::uint32_t>(std::stoul(tid)))) {
                continue;
            }
            ProfiledStack stack;
            stack.process = known.names;
            stack.pid = key.tgid;
            stack.tid = static_cast<std::uint32_t>(std::stoul(tid));
            const auto comm = read_text(entry.path() / "comm", 64).value_or("");
            stack.thread = trace::printable(comm.substr(0, comm.find('\n')), trace::max_text_bytes);
            stack.kernel_frames = {"[off the CPU all the time]"};
            stack.samples = 1;
            stack.ns = static_cast<std::uint64_t>(profile.duration.count());
            profile.stacks.push_back(std::move(stack));
        }
    }
}

Result<Profile> ProfileProbe::take() {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    links_.clear();  // the tables stay as they are now
    note_new();
    auto reading = read();
    if (!reading) {
        return tl::unexpected(reading.error());
    }
    if (const auto added = add_open(*reading, static_cast<std::uint64_t>(now.count())); !added) {
        return tl::unexpected(added.error());
    }
    name_stacks(*reading);
    Profile profile;
    profile.type = settings_.type;
    profile.began = began_ + now_on(CLOCK_REALTIME) - now;
    profile.duration = now - began_;
    profile.frequency = settings_.frequency;
    profile.samples_lost = health().account.lost[LOST_table_full] + health().skipped;
    for (const auto &[key, count] : *reading) {
        if (!known_.contains(key_of(key))) {
            profile.samples_lost += count.samples;  // the record of the process's start was lost
        } else if (wants(key_of(key))) {
            profile.stacks.push_back(stack_of(key, count));
        }
    }
    if (settings_.type == ProfileType::offcpu) {
        add_motionless(profile, *reading);
    }
    profile.stacks_lost = __atomic_load_n(&skeleton().bss->stacks_lost, __ATOMIC_RELAXED);
    return profile;
}

}  // namespace

ProfilerAndProbe make_profiler(const config::Config &config, const TargetProcessesPtr &targets,
                               ProfileSettings settings) {
    auto probe = std::make_unique<ProfileProbe>(config, targets, std::move(settings));
    Profiler *const profiler = probe.get();
    return {std::move(probe), profiler};
}

}  // namespace gpusnoop::probes
