#include "exporter/probes/host_pressure/probe.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/read_file.h"
#include "exporter/base/text/text.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/host_pressure/aggregator.h"
#include "exporter/processes/proc.h"
#include "exporter/processes/user_shares.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

// The kernel takes a tenth of a millisecond for the files of one.
constexpr std::size_t max_cgroups_of_user = 512;

std::string first_line(const std::string &path) {
    const auto text = read_start(path);
    return text ? text->substr(0, text->find('\n')) : "";
}

// Empty: the file is missing, or has no such number.
std::optional<std::int64_t> number_in(const std::string &path) {
    const std::string text = first_line(path);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::map<std::string, std::uint64_t> read_idle_states() {
    std::map<std::string, std::uint64_t> states;
    std::error_code error;
    for (const auto &cpu : fs::directory_iterator("/sys/devices/system/cpu", error)) {
        std::error_code none;
        for (const auto &state : fs::directory_iterator(cpu.path() / "cpuidle", none)) {
            const std::string name = first_line(state.path() / "name");
            if (const auto time = number_in(state.path() / "time"); time && !name.empty()) {
                states[to_valid_utf8(name, 64)] += static_cast<std::uint64_t>(*time);
            }
        }
    }
    return states;
}

// NUMA nodes of GPUs by index. The kernel has addresses in lower case and with a short domain.
std::map<unsigned, std::int64_t> read_gpu_nodes(const std::string &nvidia_proc_path) {
    std::map<unsigned, std::int64_t> nodes;
    constexpr std::size_t long_address = 16;  // 00000000:3B:00.0
    for (const discovery::Gpu &gpu : discovery::read_gpus(nvidia_proc_path)) {
        std::string address = gpu.pci_bus_id;
        if (address.size() == long_address && address.starts_with("0000")) {
            address.erase(0, 4);
        }
        std::ranges::transform(address, address.begin(),
                               [](char c) { return c >= 'A' && c <= 'F' ? char(c + 32) : c; });
        const auto node = number_in("/sys/bus/pci/devices/" + address + "/numa_node");
        if (node && *node >= 0) {
            nodes[gpu.index] = *node;
        }
    }
    return nodes;
}

class HostPressureProbe final : public Probe {
public:
    HostPressureProbe(const config::Config &config, TracedProcessesPtr traced)
        : config_(config.of<HostConfig>()),
          rescan_interval_(config.discovery.rescan_interval),
          nvidia_proc_path_(config.discovery.nvidia_proc_path),
          budget_(budget_of(config)),
          traced_(std::move(traced)),
          aggregator_(budget_, config.series.retention) {}

    Result<> start() override;
    void drain() override;
    std::vector<series::FamilySnapshot> report() override;
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.families().folded();
    }
    [[nodiscard]] Health health() const override { return state_.health(); }

private:
    struct Place {
        CgroupPlaces places;
        nanoseconds read{};
    };

    void read(nanoseconds now);

    HostConfig config_;
    nanoseconds rescan_interval_;
    std::string nvidia_proc_path_;
    series::Budget budget_;
    TracedProcessesPtr traced_;
    HostPressureAggregator aggregator_;
    AttachState state_{"host_pressure"};
    FollowedProcesses *followed_ = nullptr;  // null: the probe is down
    std::map<ProcessKey, Place> places_;
    std::map<unsigned, std::int64_t> gpu_nodes_;
    nanoseconds read_{};
    nanoseconds tidied_{};
};

Result<> HostPressureProbe::start() {
    const auto followed = traced_->follow();
    if (!followed) {
        state_.down(followed.error());
        return tl::unexpected(followed.error());
    }
    followed_ = *followed;
    gpu_nodes_ = read_gpu_nodes(nvidia_proc_path_);
    state_.up(1, "reading the cgroups of " + traced_->describe_followed());
    log::info("reading cgroups", {{"probe", "host_pressure"}, {"below", config_.cgroup_path}});
    return {};
}

void HostPressureProbe::drain() {
    if (followed_ == nullptr) {
        return;
    }
    followed_->drain();
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    if (now - read_ >= config_.read_interval) {
        read(now);
    }
    if (now - tidied_ > std::chrono::seconds(1)) {
        tidied_ = now;
        aggregator_.tidy(now);
    }
}

void HostPressureProbe::read(nanoseconds now) {
    read_ = now;
    std::map<ProcessKey, Place> places;
    std::map<CgroupPlaces, ProcessKey> in_use;
    for (const auto &process : followed_->running()) {
        Place &place = places[process.key];
        if (const auto known = places_.find(process.key);
            known != places_.end() && now - known->second.read < rescan_interval_) {
            place = known->second;
        } else {
            place = {places_of(processes::cgroups_of(process.key.tgid), config_.cgroup_path), now};
        }
        if (!place.places.empty()) {
            in_use.emplace(place.places, process.key);
        }
    }
    places_ = std::move(places);
    processes::UserQuota quota(max_cgroups_of_user);
    for (const auto &[place, key] : in_use) {
        ProcessIdentity identity;
        identity.key = key;
        (void)followed_->identify(identity);
        if (!quota.take(identity.uid ? std::optional(processes::sharing_user(*identity.uid))
                                     : std::nullopt)) {
            continue;
        }
        if (const CgroupState state = read_cgroup(place); !state.empty()) {
            aggregator_.on_cgroup(place, identity.container, identity.slurm_job_id, state, now);
        }
    }
}

std::vector<series::FamilySnapshot> HostPressureProbe::report() {
    if (followed_ == nullptr) {
        return {};
    }
    read(now_on(CLOCK_MONOTONIC));
    aggregator_.on_idle(read_idle_states());  // two files for each state of each CPU
    auto snapshots = aggregator_.families().snapshots();
    series::FamilySet set(budget_, false);
    const HostPressureGauges gauges = make_host_pressure_gauges(set);
    aggregator_.add_memory(gauges, read_);
    for (const auto &[gpu, node] : gpu_nodes_) {
        gauges.gpu_node.set(gauges.gpu_node.slot(1, {std::to_string(gpu)}),
                            static_cast<std::uint64_t>(node));
    }
    std::ranges::move(set.snapshots(), std::back_inserter(snapshots));
    return snapshots;
}

// Is one of these below host.cgroup_path?
bool has_any(const KernelView &kernel, const config::Config &config,
             std::initializer_list<const char *> files) {
    return std::ranges::any_of(files, [&](const char *file) {
        return kernel.has_file(config.of<HostConfig>().cgroup_path + file);
    });
}

constexpr KernelNeed pressure_needs[] = {
    {.thing = "cgroups",
     .reason = "none are mounted at host.cgroup_path",
     .costs = "nothing is counted of cgroups",
     .is_met =
         [](const KernelView &kernel, const config::Config &config) {
             return has_any(
                 kernel, config,
                 {"/cgroup.controllers", "/unified/cgroup.controllers", "/cpu", "/memory"});
         }},
    {.thing = "cgroups of version 2",
     .reason = "host.cgroup_path has only version 1, or none",
     .costs = "gpusnoop_host_pressure_seconds_total is absent",
     .is_met =
         [](const KernelView &kernel, const config::Config &config) {
             return has_any(kernel, config, {"/cgroup.controllers", "/unified/cgroup.controllers"});
         }},
    {.thing = "PSI",
     .reason = "the kernel is built without CONFIG_PSI, or booted without psi=1",
     .costs = "gpusnoop_host_pressure_seconds_total is absent",
     .is_met =
         [](const KernelView &kernel, const config::Config & /*config*/) {
             return kernel.has_file("/proc/pressure/cpu");
         }},
    {.thing = "CPU quotas",
     .reason = "the kernel is built without CONFIG_CFS_BANDWIDTH",
     .costs = "gpusnoop_host_cpu_throttled_seconds_total and the periods are absent",
     .is_met = has_member<"cfs_bandwidth", "throttled_time">},
    {.thing = "memory of cgroups by NUMA node",
     .reason = "the kernel is built without CONFIG_MEMCG or CONFIG_NUMA, or the controller is off",
     .costs = "gpusnoop_host_memory_numa_bytes is absent",
     .is_met =
         [](const KernelView &kernel, const config::Config &config) {
             return has_any(
                 kernel, config,
                 {"/memory.numa_stat", "/unified/memory.numa_stat", "/memory/memory.numa_stat"});
         }},
};

}  // namespace

constinit const ProbeKind host_pressure_kind = {
    .name = "host_pressure",
    .title = "Cgroups of processes",
    .make = make_if_enabled<HostPressureProbe, HostPressureConfig>,
    .read_host = read_host_switch<HostPressureConfig>,
    .follows_processes = is_enabled<HostPressureConfig>,
    .kernel_needs = pressure_needs,
    .declare = declare_families<make_host_pressure_families, make_host_pressure_gauges>,
};

}  // namespace gpusnoop::probes
