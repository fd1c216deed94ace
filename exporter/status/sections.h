// The parts of the page at /. For page.cpp only.
#pragma once

#include <string>

#include "exporter/status/facts.h"

namespace gpusnoop::status {

// What is wrong, or that nothing is.
[[nodiscard]] std::string notes(const Facts &facts);

// Each with its heading, and a sentence where there is nothing to list.
[[nodiscard]] std::string probes_section(const Facts &facts);
[[nodiscard]] std::string processes_section(const Facts &facts);
[[nodiscard]] std::string allocations_section(const Facts &facts);
[[nodiscard]] std::string slow_calls_section(const Facts &facts);
[[nodiscard]] std::string libraries_section(const Facts &facts);

}  // namespace gpusnoop::status
