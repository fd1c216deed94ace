// A call on a stack as JSON, as all documents have it.
#pragma once

#include <nlohmann/json.hpp>

#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

// {"function":"main","module":"python3.11","offset":120}, with null for what is not known.
[[nodiscard]] nlohmann::ordered_json to_json(const symbols::Frame &frame);

}  // namespace gpusnoop::probes
