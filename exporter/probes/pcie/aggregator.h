// Counts the accesses to the configuration space of PCI devices. No BPF here: records in, families
// out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/pcie.h"
#include "exporter/probes/frame/pci_address.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

struct PcieFamilies {
    series::Family &accesses, &errors, &all_ones, &duration;
};

PcieFamilies make_pcie_families(series::FamilySet &set);

// For a trace.
using OnAccess = std::function<void(const pcie_record &, const ProcessIdentity &)>;

struct PcieProcess : KnownProcess {
    struct Slots {
        series::Slot accesses, errors, all_ones, duration;
    };
    // By device and access.
    std::map<std::pair<std::uint64_t, std::uint32_t>, Slots> slots;
};

class PcieAggregator : public CountingAggregator<make_pcie_families, PcieProcess> {
public:
    using CountingAggregator::CountingAggregator;

    // The first record of a thread has details of its process. With `trace`, the record is passed
    // on instead of counted.
    void on_record(const pcie_record &record, const process_details *details = nullptr,
                   const OnAccess &trace = nullptr);

private:
    PcieProcess::Slots &slots_of(const pcie_record &record, PcieProcess &process);
};

// Does the class, "0x030200", begin with one of these: "0x03", "0x0680"?
[[nodiscard]] bool is_of_class(std::string_view class_code,
                               const std::vector<std::string> &classes);

// The devices of these classes below `directory`. Omits devices that cannot be read.
[[nodiscard]] std::set<std::uint64_t> find_pci_devices(
    const std::vector<std::string> &classes, const std::string &directory = "/sys/bus/pci/devices");

}  // namespace gpusnoop::probes
