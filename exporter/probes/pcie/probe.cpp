#include "exporter/probes/pcie/probe.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/config/reader.h"
#include "exporter/ebpf/attach/kernel_hooks.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/pcie/pci_registers.h"
#include "exporter/symbols/names/syscall_names.h"
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

namespace {

constexpr std::size_t max_classes = 64;

// "all" is the empty prefix.
std::optional<std::string> read_class(const config::Value &value) {
    const auto text = value.text("a class such as \"0x03\"");
    if (!text || *text == "all") {
        return text ? std::optional<std::string>("") : std::nullopt;
    }
    std::string code = *text;
    std::ranges::transform(code, code.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string digits = code.starts_with("0x") ? code.substr(2) : "";
    const bool is_number =
        std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c) != 0; });
    if (!is_number || (digits.size() != 2 && digits.size() != 4 && digits.size() != 6)) {
        value.reject(
            "must be \"all\", or 0x and 2, 4 or 6 digits of a PCI class, such as \"0x03\"");
        return std::nullopt;
    }
    return code;
}

void read_classes(const config::Value &list, std::vector<std::string> &value) {
    const auto items = list.list("a list of classes", "classes", 1, max_classes);
    if (!items) {
        return;
    }
    std::vector<std::string> classes;
    for (const config::Value &item : *items) {
        if (auto one = read_class(item)) {
            classes.push_back(*std::move(one));
        }
    }
    value = std::move(classes);
}

}  // namespace

void read_pcie(config::Section pcie, config::Config &config) {
    PcieConfig value;
    pcie.boolean("enabled", value.enabled);
    if (const config::Value *const classes = pcie.find("classes")) {
        read_classes(*classes, value.classes);
    }
    pcie.note("classes", value.classes);
    pcie.ring_bytes("ring_bytes", value.ring_bytes);
    pcie.finish();
    config.set(std::move(value));
}

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

namespace {

class PcieTracer final : public EventTracer {
public:
    explicit PcieTracer(const Setup &setup) : EventTracer(setup) {}

private:
    Result<std::unique_ptr<probes::Probe>> make_probe() override {
        const config::Config &config = setup().config;
        // Read before the trace starts, so that these reads are not traced.
        for (const std::uint64_t device :
             probes::find_pci_devices(config.of<probes::PcieConfig>().classes)) {
            registers_.emplace(device, registers_of(device));
        }
        return probes::make_pcie_tracer(config, [this](const auto &record, const auto &process) {
            std::string name = registers_[record.device].name(record.offset);
            write(event_of(record, process, std::move(name), clock_offset_ns()));
        });
    }

    std::map<std::uint64_t, PciRegisters> registers_;  // by device
};

// include/linux/pci.h.
std::string pci_error(std::int32_t result) {
    switch (result) {
        case 0x81:
            return "PCIBIOS_FUNC_NOT_SUPPORTED";
        case 0x83:
            return "PCIBIOS_BAD_VENDOR_ID";
        case 0x86:
            return "PCIBIOS_DEVICE_NOT_FOUND";
        case 0x87:
            return "PCIBIOS_BAD_REGISTER_NUMBER";
        case 0x88:
            return "PCIBIOS_SET_FAILED";
        case 0x89:
            return "PCIBIOS_BUFFER_TOO_SMALL";
        default:
            return result < 0 ? std::string(errno_name(0U - static_cast<std::uint32_t>(result)))
                              : std::to_string(result);
    }
}

}  // namespace

Event event_of(const pcie_record &record, const probes::ProcessIdentity &process,
               std::string register_name, std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began_ns(record.ended_ns, record.duration_ns, clock_offset_ns);
    event.duration_ns = record.duration_ns;
    set_caller(event, record.tgid, record.tid, process);
    event.kind = "op";
    event.name = (record.access & PCIE_WRITES) != 0 ? "write" : "read";
    set_result(event, record.result, record.result == 0 ? "" : pci_error(record.result));
    event.details = {
        {"device", probes::pci_address(record.device)},
        {"offset", Word{record.offset}},
        {"register", text_or_null(std::move(register_name))},
        {"size", std::uint64_t{PCIE_SIZE(record.access)}},
        {"value", Word{record.value}},
        {"origin", std::string((record.access & PCIE_USER) != 0 ? "user" : "driver")},
    };
    return event;
}

constinit const Kind pcie_trace = {.help = "Accesses to the configuration space of GPUs.",
                                   .column = "ACCESS",
                                   .make = make<PcieTracer>};

}  // namespace gpusnoop::trace
