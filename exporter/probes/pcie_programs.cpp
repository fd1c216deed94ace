#include "exporter/probes/pcie_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "exporter/base/log.h"
#include "exporter/kernel/kprobe.h"
#include "exporter/kernel/record.h"
#include "exporter/kernel/ring.h"
#include "exporter/kernel/skeleton.h"
#include "exporter/probes/pcie_devices.h"
#include "pcie.skel.h"

namespace gpusnoop::probes {

struct PciePrograms::Loaded {
    kernel::Skeleton<pcie_bpf> skeleton;
    std::unique_ptr<kernel::Ring> ring;
    kernel::KprobeSet probes;  // detached before the others go
    std::atomic<std::uint64_t> undecodable = 0;
};

namespace {

std::vector<kernel::KprobePoint> all_points() {
    constexpr std::pair<const char *, std::uint64_t> origins[] = {{"bus", 0}, {"user", PCIE_USER}};
    constexpr std::pair<const char *, std::uint64_t> ops[] = {{"read", 0}, {"write", PCIE_WRITES}};
    constexpr std::pair<const char *, std::uint64_t> sizes[] = {
        {"byte", 1}, {"word", 2}, {"dword", 4}};
    std::vector<kernel::KprobePoint> points;
    for (const auto &[origin, of_origin] : origins) {
        for (const auto &[op, of_op] : ops) {
            for (const auto &[size, of_size] : sizes) {
                points.push_back({std::string("pci_") + origin + "_" + op + "_config_" + size,
                                  of_origin | of_op | of_size});
            }
        }
    }
    return points;
}

}  // namespace

PciePrograms::PciePrograms(config::Config::Pcie config)
    : config_(std::move(config)), loaded_(std::make_unique<Loaded>()) {}
PciePrograms::~PciePrograms() = default;

Result<std::unique_ptr<PciePrograms>> PciePrograms::load(const config::Config::Pcie &config,
                                                         OnRecord on_record) {
    if (const auto usable = kernel::check_kprobes(); !usable) {
        return tl::unexpected(usable.error());
    }
    std::unique_ptr<PciePrograms> programs(new PciePrograms(config));
    Loaded &loaded = *programs->loaded_;
    loaded.skeleton.reset(pcie_bpf::open());
    if (!loaded.skeleton) {
        return fail_errno("open the BPF programs");
    }
    bpf_map__set_max_entries(loaded.skeleton->maps.accesses, config.ring_bytes);
    loaded.skeleton->rodata->kernel_stack_bytes = kernel::kernel_stack_bytes();
    loaded.skeleton->rodata->every_device =
        std::ranges::find(config.classes, "") != config.classes.end();
    if (const int error = pcie_bpf::load(loaded.skeleton.get()); error != 0) {
        return fail_errno("load the BPF programs", -error);
    }
    auto ring = kernel::Ring::open(
        bpf_map__fd(loaded.skeleton->maps.accesses),
        [&loaded, on_record = std::move(on_record)](std::span<const std::byte> bytes) {
            if (const auto record = kernel::decode<pcie_record>(bytes)) {
                on_record(*record);
            } else {
                loaded.undecodable++;
            }
        });
    if (!ring) {
        return tl::unexpected(ring.error());
    }
    loaded.ring = std::move(*ring);
    programs->find_devices();
    if (const auto attached = programs->attach(); !attached) {
        return tl::unexpected(attached.error());
    }
    return programs;
}

Result<> PciePrograms::attach() {
    const auto &programs = loaded_->skeleton->progs;
    Result<> last;
    for (const kernel::KprobePoint &point : all_points()) {
        const auto attached =
            loaded_->probes.attach(programs.access_begins, programs.access_ends, point);
        if (!attached) {
            failures_++;
            last = attached;
            log::warn("cannot attach", {{"probe", "pcie"}, {"reason", attached.error().message}});
        }
    }
    return functions() > 0 ? Result<>() : last;
}

void PciePrograms::find_devices() {
    const std::set<std::uint64_t> now = find_pci_devices(config_.classes);
    std::vector<std::uint64_t> changed;
    std::ranges::set_difference(devices_, now, std::back_inserter(changed));
    for (const std::uint64_t device : changed) {
        set_device(device, false);
    }
    changed.clear();
    std::ranges::set_difference(now, devices_, std::back_inserter(changed));
    for (const std::uint64_t device : changed) {
        set_device(device, true);
    }
}

void PciePrograms::set_device(std::uint64_t device, bool wanted) {
    const int map = bpf_map__fd(loaded_->skeleton->maps.devices);
    const std::uint32_t value = 1;
    const int error = wanted ? bpf_map_update_elem(map, &device, &value, BPF_ANY)
                             : bpf_map_delete_elem(map, &device);
    if (error != 0) {
        log::warn("cannot change which PCI devices are traced",
                  {{"probe", "pcie"},
                   {"device", pci_address(device)},
                   {"reason", std::strerror(-error)}});
        return;
    }
    log::debug(wanted ? "traced" : "gone", {{"probe", "pcie"}, {"device", pci_address(device)}});
    if (wanted) {
        devices_.insert(device);
    } else {
        devices_.erase(device);
    }
}

void PciePrograms::drain() {
    loaded_->ring->drain_to(loaded_->ring->produced());
}
std::size_t PciePrograms::functions() const {
    return loaded_->probes.functions();
}
std::uint64_t PciePrograms::undecodable() const {
    return loaded_->undecodable;
}
int PciePrograms::account_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.account);
}
kernel::Runs PciePrograms::runs() const {
    return kernel::runs_of(loaded_->skeleton->obj);
}

}  // namespace gpusnoop::probes
