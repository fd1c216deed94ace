#include "exporter/probes/pcie/aggregator.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "exporter/base/read_file.h"

namespace gpusnoop::probes {

namespace {

// include/linux/pci.h: PCIBIOS_DEVICE_NOT_FOUND. Other failures are errors of the request (an
// impossible register), and leave the former value unchanged.
constexpr std::int32_t device_not_found = 0x86;

const std::vector<series::Label> of_access = {
    {"device"}, {"op", true}, {"size", true}, {"origin", true}};

const char *op_of(std::uint32_t access) {
    return (access & PCIE_WRITES) != 0 ? "write" : "read";
}

// A read of four bytes that returned only ones, or that no device answered. This is how a device
// that fell off the bus looks.
bool is_all_ones(const pcie_record &record) {
    return (record.access & PCIE_WRITES) == 0 && PCIE_SIZE(record.access) == 4 &&
           record.value == ~std::uint32_t{0} &&
           (record.result == 0 || record.result == device_not_found || record.result == -ENODEV);
}

}  // namespace

PcieFamilies make_pcie_families(series::FamilySet &set) {
    return {
        .accesses = set.counter("pcie_config_accesses_total",
                                "Completed accesses to the configuration space of a PCI device, "
                                "including failed ones; `origin` is the requester: a driver, or "
                                "user space (setpci, lspci, nvidia-smi).",
                                of_access),
        .errors = set.counter("pcie_config_errors_total",
                              "Accesses to the configuration space that failed.", of_access),
        .all_ones = set.counter("pcie_config_all_ones_reads_total",
                                "Four-byte reads that returned all ones, as from a device that "
                                "fell off the bus. A few registers may legitimately contain all "
                                "ones.",
                                of_access),
        .duration =
            set.histogram("pcie_config_access_duration_seconds",
                          "Duration of each access to the configuration space.", {{"op", true}},
                          {200, 500, 1'000, 2'000, 5'000, 10'000, 50'000, 100'000, 1'000'000,
                           10'000'000, 100'000'000, 1'000'000'000},
                          1e9),
    };
}

PcieProcess::Slots &PcieAggregator::slots_of(const pcie_record &record, PcieProcess &process) {
    const auto [found, is_new] =
        process.slots.try_emplace({record.device, record.access & PCIE_COOKIE_MASK});
    if (is_new) {
        series::LabelValues labels = process.labels;
        labels.emplace_back(op_of(record.access));
        found->second.duration = of_.duration.slot(process.owner, labels);
        labels = process.labels;
        labels.insert(labels.end(), {pci_address(record.device), op_of(record.access),
                                     std::to_string(PCIE_SIZE(record.access)),
                                     (record.access & PCIE_USER) != 0 ? "user" : "driver"});
        found->second.accesses = of_.accesses.slot(process.owner, labels);
        found->second.errors = of_.errors.slot(process.owner, labels);
        if ((record.access & PCIE_WRITES) == 0 && PCIE_SIZE(record.access) == 4) {
            found->second.all_ones = of_.all_ones.slot(process.owner, labels);
        }
    }
    return found->second;
}

void PcieAggregator::on_record(const pcie_record &record, const process_details *details,
                               const OnAccess &trace) {
    PcieProcess &process = processes_.of(record.tgid, record.identity, details);
    if (trace) {
        return trace(record, process);
    }
    const PcieProcess::Slots &slots = slots_of(record, process);
    of_.accesses.add(slots.accesses, 1);
    of_.duration.observe(slots.duration, record.duration_ns);
    if (record.result != 0) {
        of_.errors.add(slots.errors, 1);
    }
    if (is_all_ones(record)) {
        of_.all_ones.add(slots.all_ones, 1);
    }
}

bool is_of_class(std::string_view class_code, const std::vector<std::string> &classes) {
    return std::ranges::any_of(classes,
                               [&](const std::string &one) { return class_code.starts_with(one); });
}

std::set<std::uint64_t> find_pci_devices(const std::vector<std::string> &classes,
                                         const std::string &directory) {
    std::set<std::uint64_t> found;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator(directory, error)) {
        const auto device = pci_device(entry.path().filename().string());
        const auto class_code = read_start(entry.path() / "class");
        if (device && class_code && is_of_class(*class_code, classes)) {
            found.insert(*device);
        }
    }
    return found;
}

}  // namespace gpusnoop::probes
