#include "exporter/discovery/gpus/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/base/read_file.h"
#include "exporter/base/text/text.h"
#include "exporter/processes/process_reader.h"

namespace gpusnoop::discovery {

namespace {

// The driver's own limit is lower; a directory with more is not the driver's.
constexpr std::size_t max_gpus = 256;
// It may have to wake a GPU first.
constexpr std::chrono::seconds patience_with_driver{3};
constexpr std::size_t max_capabilities_bytes = 1024 * 1024;
constexpr std::size_t max_information_bytes = 16 * 1024;
constexpr std::size_t max_name_bytes = 128;

struct PciAddress {
    std::uint32_t domain;
    std::uint32_t bus;
    std::uint32_t slot;
    std::uint32_t function;

    friend auto operator<=>(const PciAddress &, const PciAddress &) = default;
};

struct Found {
    PciAddress address;
    std::string directory;
};

// Takes a number in hexadecimal off the front, and the `end` after it (nothing after it if 0).
std::optional<std::uint32_t> take_hexadecimal(std::string_view &rest, char end,
                                              std::uint32_t most) {
    std::uint32_t value = 0;
    const char *const last = rest.data() + rest.size();
    const auto [at, error] = std::from_chars(rest.data(), last, value, 16);
    const bool ends = end == '\0' ? at == last : at != last && *at == end;
    if (error != std::errc{} || !ends || value > most) {
        return std::nullopt;
    }
    rest.remove_prefix(std::min(static_cast<std::size_t>(at - rest.data()) + 1, rest.size()));
    return value;
}

// domain:bus:slot.function
std::optional<PciAddress> parse_address(std::string_view text) {
    const auto domain = take_hexadecimal(text, ':', UINT32_MAX);
    const auto bus = domain ? take_hexadecimal(text, ':', 0xff) : std::nullopt;
    const auto slot = bus ? take_hexadecimal(text, '.', 0x1f) : std::nullopt;
    const auto function = slot ? take_hexadecimal(text, '\0', 7) : std::nullopt;
    if (!function) {
        return std::nullopt;
    }
    return PciAddress{*domain, *bus, *slot, *function};
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view blanks = " \t\r";
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    return text.substr(0, text.find_last_not_of(blanks) + 1);
}

// The driver writes question marks for a UUID that it cannot read.
std::string uuid_of(std::string_view text) {
    constexpr std::string_view form = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    const bool whole =
        std::equal(text.begin(), text.end(), form.begin(), form.end(), [](char c, char expected) {
            return expected == 'x' ? std::string_view("0123456789abcdefABCDEF").find(c) !=
                                         std::string_view::npos
                                   : c == expected;
        });
    return whole ? std::string(text) : std::string();
}

int minor_of(std::string_view text) {
    int minor = -1;
    const char *const last = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), last, minor);
    return error == std::errc{} && at == last && minor >= 0 ? minor : -1;
}

// Reads the lines "Field: \t value" into `gpu`; false if the GPU is excluded.
bool read_information(std::string_view text, Gpu &gpu) {
    bool excluded = false;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) {
            continue;
        }
        const std::string_view field = trim(line.substr(0, colon));
        const std::string_view value = trim(line.substr(colon + 1));
        if (field == "Model") {
            gpu.name = value == "Unknown" ? "" : to_valid_utf8(value, max_name_bytes);
        } else if (field == "GPU UUID") {
            gpu.uuid = uuid_of(value);
        } else if (field == "Device Minor") {
            gpu.minor = minor_of(value);
        } else if (field == "GPU Excluded" || field == "Blacklisted") {  // its name until 2020
            excluded = value == "Yes";
        }
    }
    return !excluded;
}

// The driver writes these files under locks of its own, which it does not let go if a GPU hangs: a
// child process reads them.
class InformationReader {
public:
    // Nothing: it cannot be read.
    std::string read(const std::string &path) {
        if (!answers_) {
            return "";
        }
        auto text = reader_.read_text(path, max_information_bytes);
        answers_ = text || text.error().code != ETIMEDOUT;
        if (!answers_) {
            log::warn("the NVIDIA driver does not answer, so GPUs are known by their address only",
                      {{"file", path}});
        }
        return text ? std::move(*text) : "";
    }

private:
    processes::ProcessReader reader_{{.patience = patience_with_driver}};
    bool answers_ = true;
};

// The names in a directory that `wanted` accepts, at most one more than there can be GPUs.
template <typename Wanted>
std::vector<std::string> names_in(const std::string &directory, const Wanted &wanted) {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator entry(directory, error);
    while (!error && entry != std::filesystem::directory_iterator() && names.size() <= max_gpus) {
        if (auto name = entry->path().filename().string(); wanted(name)) {
            names.push_back(std::move(name));
        }
        entry.increment(error);
    }
    return names;
}

// The directory `mig` exists on every GPU that can be divided; its gi<id> are the instances.
bool has_instances(const std::string &nvidia_proc, int minor) {
    const std::string mig = fmt::format("{}/capabilities/gpu{}/mig", nvidia_proc, minor);
    return minor >= 0 &&
           !names_in(mig, [](const std::string &name) { return name.starts_with("gi"); }).empty();
}

// From lines like "gpu0/gi1/ci0/access 13", of all GPUs; others, such as "monitor 2", belong to
// none.
std::map<int, std::vector<int>> capabilities_in(std::string_view text) {
    std::map<int, std::vector<int>> by_gpu;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t slash = line.find('/');
        const std::size_t space = line.find(' ');
        if (!line.starts_with("gpu") || slash == std::string_view::npos ||
            space == std::string_view::npos) {
            continue;
        }
        const int gpu = minor_of(line.substr(3, slash - 3));
        const int capability = minor_of(line.substr(space + 1));
        if (gpu >= 0 && capability >= 0) {
            by_gpu[gpu].push_back(capability);
        }
    }
    for (auto &[gpu, capabilities] : by_gpu) {
        std::ranges::sort(capabilities);
    }
    return by_gpu;
}

}  // namespace

std::vector<Gpu> read_gpus(const std::string &nvidia_proc) {
    std::vector<Found> found;
    for (auto &name : names_in(nvidia_proc + "/gpus", parse_address)) {
        found.push_back({*parse_address(name), fmt::format("{}/gpus/{}", nvidia_proc, name)});
    }
    if (found.size() > max_gpus) {
        return {};
    }
    std::sort(found.begin(), found.end(),
              [](const Found &a, const Found &b) { return a.address < b.address; });

    auto capabilities = capabilities_in(
        read_start(nvidia_proc + "-caps/mig-minors", max_capabilities_bytes).value_or(""));
    InformationReader information;
    std::vector<Gpu> gpus;
    for (const auto &[address, directory] : found) {
        Gpu gpu;
        gpu.index = static_cast<unsigned>(gpus.size());
        gpu.pci_bus_id = fmt::format("{:08X}:{:02X}:{:02X}.{:X}", address.domain, address.bus,
                                     address.slot, address.function);
        // A GPU whose information cannot be read still has its index.
        if (read_information(information.read(directory + "/information"), gpu)) {
            gpu.mig = has_instances(nvidia_proc, gpu.minor);
            gpu.capabilities = std::move(capabilities[gpu.minor]);
            gpus.push_back(std::move(gpu));
        }
    }
    return gpus;
}

Result<std::vector<Gpu>> gpus_below(processes::ProcessReader &reader, const std::string &root,
                                    const std::vector<Gpu> &gpus) {
    if (const auto is_there = reader.find(root, "/"); !is_there) {
        return tl::unexpected(is_there.error());
    }
    std::vector<Gpu> found;
    for (const Gpu &gpu : gpus) {
        if (gpu.minor < 0) {
            return fail("the minor number of a GPU is not known");
        }
        const auto node = reader.find(root, "dev/nvidia" + std::to_string(gpu.minor));
        if (node) {
            found.push_back(gpu);
        } else if (node.error().code != ENOENT) {
            return tl::unexpected(node.error());
        }
    }
    return found.empty() ? gpus : found;
}

}  // namespace gpusnoop::discovery
