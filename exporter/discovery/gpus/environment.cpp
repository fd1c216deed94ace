#include "exporter/discovery/gpus/environment.h"

#include <algorithm>

namespace gpusnoop::discovery {

std::optional<std::string_view> variable(std::string_view environment, std::string_view name) {
    environment = environment.substr(0, environment.rfind('\0') + 1);
    while (!environment.empty()) {
        const std::string_view one = environment.substr(0, environment.find('\0'));
        environment.remove_prefix(std::min(one.size() + 1, environment.size()));
        if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) {
            return one.substr(name.size() + 1);
        }
    }
    return std::nullopt;
}

}  // namespace gpusnoop::discovery
