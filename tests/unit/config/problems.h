// The configuration that is shipped, and what the reader says of others.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/probes/frame/registry.h"

namespace gpusnoop::test {

// What parse() has to say about `text`, "" if nothing.
inline std::string problems(const std::string &text, const std::vector<std::string> &metrics = {}) {
    const auto parsed = config::parse(text, "c.yaml", probes::setting_blocks(), metrics);
    return parsed ? "" : parsed.error().message;
}

inline std::filesystem::path shipped_config() {
    return std::filesystem::path(GPUSNOOP_SOURCE_DIR) / "config.yaml";
}

}  // namespace gpusnoop::test
