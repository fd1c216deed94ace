#include "exporter/probes/pcie/pci_registers.h"

#include <fcntl.h>
#include <linux/pci_regs.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "exporter/base/fd.h"
#include "exporter/base/read_file.h"
#include "exporter/probes/pcie/aggregator.h"

namespace gpusnoop::trace {

namespace {

constexpr std::uint32_t all_ones = ~std::uint32_t{0};

struct Register {
    std::uint32_t offset;
    std::uint32_t bytes;
    std::string_view name;
};

constexpr Register of_all_headers[] = {
    {PCI_VENDOR_ID, 2, "vendor_id"},
    {PCI_DEVICE_ID, 2, "device_id"},
    {PCI_COMMAND, 2, "command"},
    {PCI_STATUS, 2, "status"},
    {PCI_REVISION_ID, 1, "revision_id"},
    {PCI_CLASS_PROG, 3, "class"},
    {PCI_CACHE_LINE_SIZE, 1, "cache_line_size"},
    {PCI_LATENCY_TIMER, 1, "latency_timer"},
    {PCI_HEADER_TYPE, 1, "header_type"},
    {PCI_BIST, 1, "bist"},
    {PCI_CAPABILITY_LIST, 1, "capability_list"},
    {PCI_INTERRUPT_LINE, 1, "interrupt_line"},
    {PCI_INTERRUPT_PIN, 1, "interrupt_pin"},
};

constexpr Register of_plain_headers[] = {
    {PCI_BASE_ADDRESS_0, 4, "bar_0"},
    {PCI_BASE_ADDRESS_1, 4, "bar_1"},
    {PCI_BASE_ADDRESS_2, 4, "bar_2"},
    {PCI_BASE_ADDRESS_3, 4, "bar_3"},
    {PCI_BASE_ADDRESS_4, 4, "bar_4"},
    {PCI_BASE_ADDRESS_5, 4, "bar_5"},
    {PCI_SUBSYSTEM_VENDOR_ID, 2, "subsystem_vendor_id"},
    {PCI_SUBSYSTEM_ID, 2, "subsystem_id"},
    {PCI_ROM_ADDRESS, 4, "rom_address"},
};

constexpr Register of_power_management[] = {
    {PCI_PM_PMC, 2, "power_management_capabilities"},
    {PCI_PM_CTRL, 2, "power_management_control"},
};
constexpr Register of_msi[] = {{PCI_MSI_FLAGS, 2, "msi_control"}};
constexpr Register of_msi_x[] = {{PCI_MSIX_FLAGS, 2, "msi_x_control"}};
constexpr Register of_express[] = {
    {PCI_EXP_FLAGS, 2, "pcie_capabilities"},     {PCI_EXP_DEVCAP, 4, "device_capabilities"},
    {PCI_EXP_DEVCTL, 2, "device_control"},       {PCI_EXP_DEVSTA, 2, "device_status"},
    {PCI_EXP_LNKCAP, 4, "link_capabilities"},    {PCI_EXP_LNKCTL, 2, "link_control"},
    {PCI_EXP_LNKSTA, 2, "link_status"},          {PCI_EXP_DEVCAP2, 4, "device_capabilities_2"},
    {PCI_EXP_DEVCTL2, 2, "device_control_2"},    {PCI_EXP_DEVSTA2, 2, "device_status_2"},
    {PCI_EXP_LNKCAP2, 4, "link_capabilities_2"}, {PCI_EXP_LNKCTL2, 2, "link_control_2"},
    {PCI_EXP_LNKSTA2, 2, "link_status_2"},
};
constexpr Register of_errors[] = {
    {PCI_ERR_UNCOR_STATUS, 4, "uncorrectable_error_status"},
    {PCI_ERR_UNCOR_MASK, 4, "uncorrectable_error_mask"},
    {PCI_ERR_UNCOR_SEVER, 4, "uncorrectable_error_severity"},
    {PCI_ERR_COR_STATUS, 4, "correctable_error_status"},
    {PCI_ERR_COR_MASK, 4, "correctable_error_mask"},
};

// Extended capabilities have their own numbers.
constexpr std::uint32_t extended = 1U << 16U;

struct CapabilityKind {
    std::uint32_t id;
    std::string_view name;
    std::uint32_t bytes;  // 0: in the third byte
    std::span<const Register> registers;
};

constexpr CapabilityKind capability_kinds[] = {
    {PCI_CAP_ID_PM, "power_management", 8, of_power_management},
    {PCI_CAP_ID_VPD, "vital_product_data", 8, {}},
    {PCI_CAP_ID_MSI, "msi", 24, of_msi},
    {PCI_CAP_ID_VNDR, "vendor_specific", 0, {}},
    {PCI_CAP_ID_EXP, "pcie", 60, of_express},
    {PCI_CAP_ID_MSIX, "msi_x", 12, of_msi_x},
    {extended | PCI_EXT_CAP_ID_ERR, "error_reporting", 72, of_errors},
    {extended | PCI_EXT_CAP_ID_VC, "virtual_channel", 28, {}},
    {extended | PCI_EXT_CAP_ID_DSN, "serial_number", 12, {}},
    {extended | PCI_EXT_CAP_ID_SRIOV, "sr_iov", 64, {}},
    {extended | PCI_EXT_CAP_ID_REBAR, "resizable_bar", 12, {}},
    {extended | PCI_EXT_CAP_ID_LTR, "latency_tolerance", 8, {}},
    {extended | PCI_EXT_CAP_ID_L1SS, "l1_substates", 20, {}},
};

const CapabilityKind *capability_kind(std::uint32_t id) {
    const auto *const found = std::ranges::find(capability_kinds, id, &CapabilityKind::id);
    return found == std::end(capability_kinds) ? nullptr : found;
}

std::string inside(std::string_view name, std::uint32_t offset) {
    return offset == 0 ? std::string(name) : fmt::format("{}+{:#x}", name, offset);
}

std::string name_in(std::span<const Register> registers, std::uint32_t offset) {
    const auto found = std::ranges::find_if(registers, [&](const Register &one) {
        return offset >= one.offset && offset - one.offset < one.bytes;
    });
    return found == registers.end() ? "" : inside(found->name, offset - found->offset);
}

}  // namespace

PciRegisters::PciRegisters(const Read &read) {
    const auto type = read(PCI_HEADER_TYPE, 1);
    constexpr std::uint32_t layout = 0x7f;
    is_plain_ = type && (*type & layout) == PCI_HEADER_TYPE_NORMAL;
    find_capabilities(read);
    find_extended_capabilities(read);
}

void PciRegisters::find_capabilities(const Read &read) {
    const auto status = read(PCI_STATUS, 2);
    if (!status || (*status & PCI_STATUS_CAP_LIST) == 0) {
        return;
    }
    auto at = read(PCI_CAPABILITY_LIST, 1);
    // A list that returns to an earlier entry ends there.
    while (at && *at >= PCI_STD_HEADER_SIZEOF && !capabilities_.contains(*at & ~3U)) {
        const std::uint32_t begin = *at & ~3U;
        const auto id = read(begin + PCI_CAP_LIST_ID, 1);
        if (!id || *id == 0xff) {
            return;
        }
        const CapabilityKind *const kind = capability_kind(*id);
        std::uint32_t bytes = kind != nullptr ? kind->bytes : 2;
        if (bytes == 0) {
            bytes = read(begin + PCI_CAP_FLAGS, 1).value_or(0);
        }
        capabilities_[begin] = {*id, bytes};
        at = read(begin + PCI_CAP_LIST_NEXT, 1);
    }
}

void PciRegisters::find_extended_capabilities(const Read &read) {
    std::uint32_t at = PCI_CFG_SPACE_SIZE;
    while (at >= PCI_CFG_SPACE_SIZE && !capabilities_.contains(at)) {
        const auto header = read(at, 4);
        if (!header || *header == 0 || *header == all_ones) {
            return;
        }
        const std::uint32_t id = extended | PCI_EXT_CAP_ID(*header);
        const CapabilityKind *const kind = capability_kind(id);
        capabilities_[at] = {id, kind != nullptr ? kind->bytes : 4};
        at = PCI_EXT_CAP_NEXT(*header);
    }
}

std::string PciRegisters::name(std::uint32_t offset) const {
    if (offset < PCI_STD_HEADER_SIZEOF) {
        std::string name = name_in(of_all_headers, offset);
        return name.empty() && is_plain_ ? name_in(of_plain_headers, offset) : name;
    }
    auto found = capabilities_.upper_bound(offset);
    if (found == capabilities_.begin()) {
        return "";
    }
    const auto &[begin, capability] = *--found;
    const CapabilityKind *const kind = capability_kind(capability.id);
    if (kind == nullptr || offset - begin >= capability.bytes) {
        return "";
    }
    std::string name = name_in(kind->registers, offset - begin);
    return name.empty() ? inside(kind->name, offset - begin) : name;
}

PciRegisters registers_of(std::uint64_t device, const std::string &directory) {
    const std::string path = directory + "/" + probes::pci_address(device);
    const auto power = read_start(path + "/power/runtime_status");
    const Fd file(::open((path + "/config").c_str(), O_RDONLY | O_CLOEXEC));
    // Reading would wake a suspended device.
    if (!file || (power && power->starts_with("suspend"))) {
        return {};
    }
    return PciRegisters(
        [&](std::uint32_t offset, std::uint32_t bytes) -> std::optional<std::uint32_t> {
            std::uint32_t value = 0;
            const ssize_t done = ::pread(file.get(), &value, bytes, offset);
            return done == static_cast<ssize_t>(bytes) ? std::optional(value) : std::nullopt;
        });
}

}  // namespace gpusnoop::trace
