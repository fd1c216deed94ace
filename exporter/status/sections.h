// The parts of the page at /. For page.cpp only.
#pragma once

#include <string>
#include <string_view>

#include "exporter/status/facts.h"

namespace gpusnoop::status {

// The problems, or a sentence that there are none.
[[nodiscard]] std::string notes(const Facts &facts);

// In the place of what the probe would show.
[[nodiscard]] std::string not_known(const Facts &facts, std::string_view probe);

// Each has its heading, and a sentence if it has no items.
[[nodiscard]] std::string in_flight_section(const Facts &facts);
[[nodiscard]] std::string probes_section(const Facts &facts);
[[nodiscard]] std::string processes_section(const Facts &facts);
// Nothing for who may take none.
[[nodiscard]] std::string profiles_section(const Facts &facts);
[[nodiscard]] std::string allocations_section(const Facts &facts);
[[nodiscard]] std::string out_of_memory_section(const Facts &facts);
[[nodiscard]] std::string slow_calls_section(const Facts &facts);
[[nodiscard]] std::string xids_section(const Facts &facts);
[[nodiscard]] std::string libraries_section(const Facts &facts);

}  // namespace gpusnoop::status
