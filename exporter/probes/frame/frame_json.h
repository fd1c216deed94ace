// A call on a stack as JSON, the same in all documents.
#pragma once

#include <nlohmann/json.hpp>

#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

// {"function":"main","module":"python3.11","offset":120}, with null for unknown values.
[[nodiscard]] nlohmann::ordered_json to_json(const symbols::Frame &frame);

}  // namespace gpusnoop::probes
