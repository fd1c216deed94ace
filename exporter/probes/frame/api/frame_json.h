// JSON as all pages of the API have it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

// {"function":"main","module":"python3.11","offset":120}, with null for unknown values.
[[nodiscard]] nlohmann::ordered_json frame_json(const symbols::Frame &frame);

// In one line. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_text(const nlohmann::ordered_json &json);

}  // namespace gpusnoop::probes
