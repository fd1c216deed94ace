#include "exporter/probes/frame/registry.h"

#include <algorithm>
#include <future>
#include <set>
#include <system_error>
#include <thread>

#include "exporter/base/log.h"
#include "exporter/config/reader.h"
#include "exporter/probes/cuda/probe.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/fence/probe.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/processes/target_table.h"
#include "exporter/probes/functions/probe.h"
#include "exporter/probes/host_block/probe.h"
#include "exporter/probes/host_irq/probe.h"
#include "exporter/probes/host_kvm/probe.h"
#include "exporter/probes/host_life/aggregator.h"
#include "exporter/probes/host_life/probe.h"
#include "exporter/probes/host_memory/probe.h"
#include "exporter/probes/host_net/probe.h"
#include "exporter/probes/host_pressure/probe.h"
#include "exporter/probes/host_tasks/probe.h"
#include "exporter/probes/host_time/probe.h"
#include "exporter/probes/in_flight/probe.h"
#include "exporter/probes/nvlink/probe.h"
#include "exporter/probes/pcie/probe.h"
#include "exporter/probes/profile/probe.h"
#include "exporter/probes/syscall/probe.h"
#include "exporter/probes/torch/probe.h"
#include "exporter/probes/xid/probe.h"
#include "exporter/sinks/target.h"

namespace gpusnoop::probes {

namespace {

constexpr const ProbeKind *kinds[] = {
    &cuda_kind,
    &functions_kind,
    &torch_kind,
    &xid_kind,
    &pcie_kind,
    &nvlink_kind,
    &syscall_kind,
    &fence_kind,
    &host_time_kind,
    &host_life_kind,
    &host_tasks_kind,
    &host_pressure_kind,
    &host_memory_kind,
    &host_net_kind,
    &host_block_kind,
    &host_irq_kind,
    &host_kvm_kind,
    // It reads the others: StartTurn::last.
    &in_flight_kind,
};

template <typename Use>
void for_each_family(const Use &use) {
    for (const ProbeKind *const kind : kinds) {
        for (series::FamilySet &set : kind->declare()) {
            for (const series::Family &family : set.families()) {
                use(family.description());
            }
        }
    }
}

}  // namespace

std::span<const ProbeKind *const> all_probes() {
    return kinds;
}

TracedProcessesPtr make_traced_processes(const config::Config &config) {
    return std::make_shared<TracedProcesses>(
        config.of<TargetsConfig>(), config.discovery.rescan_interval,
        Following{.enabled = follows_processes(config),
                  .descendants = config.of<HostConfig>().descendants});
}

std::vector<std::unique_ptr<Probe>> make_probes(const config::Config &config,
                                                const ebpf::Features &features,
                                                const Shared &shared) {
    std::vector<std::unique_ptr<Probe>> probes;
    for (const ProbeKind *const kind : kinds) {
        if (auto probe = kind->make(config, features, shared)) {
            probes.push_back(std::move(probe));
        }
    }
    return probes;
}

std::vector<Result<>> start_probes(std::span<const std::unique_ptr<Probe>> probes) {
    std::vector<Result<>> results(probes.size());
    const auto start = [&](StartTurn turn) {
        for (std::size_t i = 0; i < probes.size(); i++) {
            if (probes[i]->start_turn() == turn) {
                results[i] = probes[i]->start();
            }
        }
    };
    std::future<void> beside;
    try {
        beside = std::async(std::launch::async, [&] { start(StartTurn::beside); });
    } catch (const std::system_error &) {
        start(StartTurn::beside);  // the machine allows no more threads
    }
    start(StartTurn::in_order);
    if (beside.valid()) {
        beside.get();  // throws what its thread threw
    }
    start(StartTurn::last);
    return results;
}

void end_probes(std::vector<std::unique_ptr<Probe>> probes) {
    std::vector<std::jthread> threads;
    for (std::unique_ptr<Probe> &probe : probes) {
        try {
            threads.emplace_back([&probe] { probe.reset(); });
        } catch (const std::system_error &) {
            probe.reset();  // the machine allows no more threads
        }
    }
}

std::vector<Health> health_of(const std::vector<std::unique_ptr<Probe>> &probes) {
    std::vector<Health> all;
    for (const ProbeKind *const kind : kinds) {
        Health health;
        health.name = kind->name;
        health.state = ProbeState::disabled;
        health.detail = "disabled by the configuration";
        for (const auto &probe : probes) {
            if (Health of_probe = probe->health(); of_probe.name == kind->name) {
                health = std::move(of_probe);
            }
        }
        health.can_count = kind->counts;
        all.push_back(std::move(health));
    }
    return all;
}

std::vector<config::ReadBlock> setting_blocks() {
    std::vector<config::ReadBlock> blocks;
    for (const ProbeKind *const kind : kinds) {
        if (kind->read != nullptr) {
            blocks.emplace_back([kind](config::Section &file, config::Config &config) {
                kind->read(file.section(std::string(kind->name)), config);
            });
        }
    }
    blocks.emplace_back([](config::Section &file, config::Config &config) {
        config::Section host = file.section("host");
        read_host(host, config);
        for (const ProbeKind *const kind : kinds) {
            if (kind->read_host != nullptr) {
                kind->read_host(host, config);
            }
        }
        host.finish();
    });
    blocks.emplace_back([](config::Section &file, config::Config &config) {
        read_targets(file.section("targets"), config);
    });
    blocks.emplace_back([](config::Section &file, config::Config &config) {
        read_profile(file.section("profile"), config);
    });
    blocks.emplace_back(sinks::read_sinks);
    blocks.emplace_back([](config::Section &file, config::Config &config) {
        read_histograms(file, all_histograms(), config);
    });
    return blocks;
}

void warn_of_missing_events(const config::Config &config) {
    const auto &configured = config.of<sinks::SinkConfigs>();
    if (sinks::want(configured, sinks::Events::launch_gaps) &&
        !config.of<HostTimeConfig>().enabled) {
        log::warn("no launch gaps are sent to sinks: they need host.time.enabled");
    }
    if (sinks::want(configured, sinks::Events::job_reports) &&
        !(config.of<HostLifeConfig>().enabled && config.of<CudaConfig>().enabled)) {
        log::warn("no job reports are sent to sinks: they need cuda.enabled and host.life.enabled");
    }
}

std::chrono::milliseconds drain_interval(const config::Config &config) {
    auto shortest = std::chrono::milliseconds::max();
    for (const ProbeKind *const kind : kinds) {
        if (kind->drain_interval != nullptr) {
            shortest = std::min(shortest, kind->drain_interval(config));
        }
    }
    return shortest;
}

std::vector<ebpf::AttachMode> attach_modes_in_use(const config::Config &config,
                                                  const ebpf::Features &features) {
    std::set<ebpf::AttachMode> in_use;
    for (const ProbeKind *const kind : kinds) {
        const auto attach = kind->attach == nullptr ? std::nullopt : kind->attach(config);
        const auto modes =
            attach ? ebpf::attach_modes(*attach, features) : std::vector<ebpf::AttachMode>();
        if (!modes.empty()) {
            in_use.insert(modes.front());
        }
    }
    return {in_use.begin(), in_use.end()};
}

bool attaches_by_perf(const config::Config &config, const ebpf::Features &features) {
    const auto modes = attach_modes_in_use(config, features);
    return std::ranges::find(modes, ebpf::AttachMode::perf) != modes.end();
}

bool attaches_to_modules(const config::Config &config) {
    return std::ranges::any_of(kinds, [&](const ProbeKind *kind) {
        return kind->attaches_to_modules != nullptr && kind->attaches_to_modules(config);
    });
}

bool reads_kernel_log(const config::Config &config) {
    return std::ranges::any_of(kinds, [&](const ProbeKind *kind) {
        return kind->reads_kernel_log != nullptr && kind->reads_kernel_log(config);
    });
}

bool follows_processes(const config::Config &config) {
    return std::ranges::any_of(kinds, [&](const ProbeKind *kind) {
        return kind->follows_processes != nullptr && kind->follows_processes(config);
    });
}

std::vector<std::string> budgeted_families() {
    std::vector<std::string> names;
    for_each_family([&](const series::Description &family) { names.push_back(family.name); });
    return names;
}

std::vector<std::string_view> api_page_names() {
    std::vector<std::string_view> names;
    for (const ProbeKind *const kind : kinds) {
        names.insert(names.end(), kind->api_pages.begin(), kind->api_pages.end());
    }
    return names;
}

const std::vector<std::string> &all_histograms() {
    static const std::vector<std::string> all = [] {
        std::vector<std::string> names;
        for_each_family([&](const series::Description &family) {
            if (family.type == series::Type::histogram) {
                names.push_back(family.name);
            }
        });
        return names;
    }();
    return all;
}

}  // namespace gpusnoop::probes
