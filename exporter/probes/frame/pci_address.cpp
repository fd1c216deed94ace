#include "exporter/probes/frame/pci_address.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "bpf/lib/pci.h"

namespace gpusnoop::probes {

namespace {

// Removes a hexadecimal number of one to eight digits, and the `end` after it, from `text`.
std::optional<std::uint32_t> cut_number(std::string_view &text, std::string_view end) {
    std::uint32_t number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    const auto digits = static_cast<std::size_t>(stop - text.data());
    if (error != std::errc() || !text.substr(digits).starts_with(end)) {
        return std::nullopt;
    }
    text.remove_prefix(digits + end.size());
    return number;
}

}  // namespace

std::optional<std::uint64_t> pci_device(std::string_view address) {
    const auto domain = cut_number(address, ":");
    const auto bus = domain ? cut_number(address, ":") : std::nullopt;
    const auto slot = bus ? cut_number(address, ".") : std::nullopt;
    const auto function = slot ? cut_number(address, "") : std::nullopt;
    if (!function || !address.empty() || *bus > 0xff || *slot > 0x1f || *function > 7) {
        return std::nullopt;
    }
    return pcie_device(*domain, *bus, *slot << 3 | *function);
}

std::string pci_address(std::uint64_t device) {
    return fmt::format("{:04x}:{:02x}:{:02x}.{}", device >> 32, device >> 8 & 0xff,
                       device >> 3 & 0x1f, device & 7);
}

}  // namespace gpusnoop::probes
