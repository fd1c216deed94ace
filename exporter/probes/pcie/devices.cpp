#include "exporter/probes/pcie/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "bpf/pcie.h"
#include "exporter/base/read_file.h"

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
