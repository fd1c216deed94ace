#include "exporter/probes/pcie/probe.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "exporter/base/log.h"
#include "exporter/ebpf/attach/kprobe.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/pcie/aggregator.h"
#include "exporter/probes/pcie/devices.h"
#include "exporter/probes/pcie/settings.h"
#include "exporter/probes/pcie/trace.h"
#include "pcie.skel.h"

namespace gpusnoop::probes {

namespace {

std::vector<ebpf::KprobePoint> all_points() {
    constexpr std::pair<const char *, std::uint64_t> origins[] = {{"bus", 0}, {"user", PCIE_USER}};
    constexpr std::pair<const char *, std::uint64_t> ops[] = {{"read", 0}, {"write", PCIE_WRITES}};
    constexpr std::pair<const char *, std::uint64_t> sizes[] = {
        {"byte", 1}, {"word", 2}, {"dword", 4}};
    std::vector<ebpf::KprobePoint> points;
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

class PcieProbe final : public BpfProbe<pcie_bpf, PcieAggregator> {
public:
    // `on_access`: for a trace.
    explicit PcieProbe(const config::Config &config, OnAccess on_access = nullptr)
        : BpfProbe("pcie", config),
          config_(config.of<PcieConfig>()),
          on_access_(std::move(on_access)) {}

private:
    Result<> configure(pcie_bpf &skeleton) override {
        skeleton.rodata->kernel_stack_bytes = ebpf::kernel_stack_bytes();
        ebpf::choose_kprobe_programs(programs_of(skeleton));
        skeleton.rodata->every_device =
            std::ranges::find(config_.classes, "") != config_.classes.end();
        return ebpf::check_kprobes();
    }

    std::vector<ProbeRing> rings(pcie_bpf &skeleton) override {
        return {ring_of_calls<pcie_first_record>(
            skeleton.maps.pcie_events, config_.ring_bytes,
            [this](const pcie_record &record, const process_details *details) {
                aggregator().on_record(record, details, on_access_);
                return true;
            })};
    }

    Result<> attach(pcie_bpf &skeleton) override;
    static ebpf::KprobePrograms programs_of(const pcie_bpf &skeleton) {
        const auto &programs = skeleton.progs;
        return {programs.pcie_begin, programs.pcie_end, programs.pcie_link_in,
                programs.pcie_link_out};
    }
    void rescan() override { find_devices(); }
    void find_devices();
    void set_device(std::uint64_t device, bool wanted);

    PcieConfig config_;
    OnAccess on_access_;
    std::set<std::uint64_t> devices_;  // in the programs' table
    ebpf::KprobeSet functions_;        // detached before the programs go
};

// The probe is down if it could not attach to any function.
Result<> PcieProbe::attach(pcie_bpf &skeleton) {
    find_devices();
    Result<> last;
    for (const ebpf::KprobePoint &point : all_points()) {
        const auto attached = functions_.attach(programs_of(skeleton), point);
        if (!attached) {
            state().failed(attached.error());
            last = attached;
        }
    }
    if (functions_.functions() == 0) {
        return last;
    }
    state().up(functions_.functions(), "attached by kprobes");
    return {};
}

void PcieProbe::find_devices() {
    const std::set<std::uint64_t> now = find_pci_devices(config_.classes);
    const std::set<std::uint64_t> before = devices_;
    for (const std::uint64_t device : before) {
        if (!now.contains(device)) {
            set_device(device, false);
        }
    }
    for (const std::uint64_t device : now) {
        if (!before.contains(device)) {
            set_device(device, true);
        }
    }
}

void PcieProbe::set_device(std::uint64_t device, bool wanted) {
    const int map = bpf_map__fd(skeleton().maps.pcie_devices);
    const std::uint32_t value = 1;
    const int error = wanted ? bpf_map_update_elem(map, &device, &value, BPF_ANY)
                             : bpf_map_delete_elem(map, &device);
    if (error != 0) {
        log::warn("cannot update the list of traced PCI devices in the BPF map",
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

}  // namespace

constinit const ProbeKind pcie_kind = {
    .name = "pcie",
    .title = "PCIe configuration space",
    .make = make_if_enabled<PcieProbe, PcieConfig>,
    .read = read_pcie,
    .needs_kprobes = true,
    .declare = declare_families<make_pcie_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .unmatched = true,
               .lost = lost_for({LOST_ring_full, LOST_no_state}),
               .attach_failures = kernel_failures},
    .trace = &trace::pcie_trace,
};

std::unique_ptr<Probe> make_pcie_tracer(const config::Config &config, OnAccess on_access) {
    return std::make_unique<PcieProbe>(config, std::move(on_access));
}

}  // namespace gpusnoop::probes
