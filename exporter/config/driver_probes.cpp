#include "exporter/config/driver_probes.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace gpusnoop::config {

namespace {

constexpr std::uint32_t min_ring = 4U << 10U;
constexpr std::uint32_t max_ring = 256U << 20U;
constexpr std::size_t max_classes = 64;

// "all" is the empty prefix.
std::optional<std::string> read_class(const Value &value) {
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

}  // namespace

void read_pcie(Section pcie, Config::Pcie &value) {
    pcie.boolean("enabled", value.enabled);
    if (const Value *const classes = pcie.find("classes")) {
        if (const auto items = classes->list("a list of classes", "classes", 1, max_classes)) {
            std::vector<std::string> read;
            for (const Value &item : *items) {
                if (auto one = read_class(item)) {
                    read.push_back(*std::move(one));
                }
            }
            value.classes = std::move(read);
        }
    }
    pcie.size("ring_bytes", value.ring_bytes, min_ring, max_ring);
    pcie.finish();
}

void read_nvlink(Section nvlink, Config::Nvlink &value) {
    nvlink.boolean("enabled", value.enabled);
    nvlink.size("ring_bytes", value.ring_bytes, min_ring, max_ring);
    nvlink.finish();
}

}  // namespace gpusnoop::config
