// The parts of the page at /. For status_page.cpp only.
#pragma once

#include <string>
#include <string_view>

#include "exporter/status/facts.h"

namespace gpusnoop::status {

// What is wrong, in a list; empty if nothing is.
[[nodiscard]] std::string notes(const Facts &facts);
// A line that nothing is wrong with the exporter; empty if something is.
[[nodiscard]] std::string good_news(const Facts &facts);

// "the probe cuda is not up".
[[nodiscard]] std::string why_unknown(const Facts &facts, std::string_view probe);
// In the place of what the probe would show.
[[nodiscard]] std::string not_known(const Facts &facts, std::string_view probe);

// Each has its heading, and a sentence if it has no items.
[[nodiscard]] std::string processes_section(const Facts &facts);
[[nodiscard]] std::string in_flight_section(const Facts &facts);
[[nodiscard]] std::string gpus_section(const Facts &facts);
[[nodiscard]] std::string events_section(const Facts &facts);
[[nodiscard]] std::string job_reports_section(const Facts &facts);
[[nodiscard]] std::string probes_section(const Facts &facts);
[[nodiscard]] std::string allocations_section(const Facts &facts);
[[nodiscard]] std::string out_of_memory_section(const Facts &facts);
[[nodiscard]] std::string slow_calls_section(const Facts &facts);
// Nothing for who may take none.
[[nodiscard]] std::string profiles_section(const Facts &facts);
[[nodiscard]] std::string libraries_section(const Facts &facts);

}  // namespace gpusnoop::status
