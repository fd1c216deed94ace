#include "exporter/probes/pcie/devices.h"

#include <algorithm>
#include <filesystem>

#include "exporter/base/read_file.h"

namespace gpusnoop::probes {

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
