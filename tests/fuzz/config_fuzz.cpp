// libFuzzer target: any bytes as a configuration. It must be taken, or refused with sentences that
// each name a place.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "exporter/config/config.h"
#include "exporter/probes/frame/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    const auto config = gpusnoop::config::parse(text, "c", gpusnoop::probes::setting_blocks());
    if (config) {
        return 0;
    }
    std::istringstream lines(config.error().message);
    std::size_t sentences = 0;
    for (std::string line; std::getline(lines, line); sentences++) {
        if (!line.starts_with("c:")) {
            std::abort();
        }
    }
    if (sentences == 0) {
        std::abort();
    }
    return 0;
}
