#include "exporter/probes/host_block/devices.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "bpf/host_block.h"
#include "exporter/base/text/text.h"

namespace gpusnoop::probes {

std::string read_block_device_name(std::uint32_t device) {
    if (device == 0) {
        return "unknown";  // the request has no disk
    }
    const std::string number =
        fmt::format("{}:{}", device >> BLOCK_MINOR_BITS, device & ((1U << BLOCK_MINOR_BITS) - 1));
    std::array<char, 4096> target{};
    const ssize_t size =
        ::readlink(("/sys/dev/block/" + number).c_str(), target.data(), target.size());
    if (size <= 0) {
        return number;
    }
    const std::string_view path(target.data(), static_cast<std::size_t>(size));
    const std::string name = to_valid_utf8(path.substr(path.rfind('/') + 1), 32);
    return name.empty() ? number : name;
}

const std::string &BlockDeviceNames::of(std::uint32_t device) {
    const auto found = names_.find(device);
    return found != names_.end()
               ? found->second
               : names_.emplace(device, read_block_device_name(device)).first->second;
}

}  // namespace gpusnoop::probes
