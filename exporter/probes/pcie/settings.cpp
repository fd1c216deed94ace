#include "exporter/probes/pcie/settings.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

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
