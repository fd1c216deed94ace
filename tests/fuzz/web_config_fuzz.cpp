// libFuzzer target: any bytes as the file of --web.config.file. It must be taken, or refused with
// sentences that each name a place, and that hold no hash of a password.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "exporter/config/web_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    const auto config = gpusnoop::config::parse_web_config(text, "w");
    if (config) {
        for (const auto &[user, hash] : config->users) {
            if (!hash.starts_with("$2")) {
                std::abort();
            }
        }
        return 0;
    }
    std::istringstream lines(config.error().message);
    std::size_t sentences = 0;
    for (std::string line; std::getline(lines, line); sentences++) {
        if (!line.starts_with("w:")) {
            std::abort();
        }
    }
    if (sentences == 0) {
        std::abort();
    }
    return 0;
}
