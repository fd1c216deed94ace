// The last reports of the driver, for /api/v1/xids and the status page.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "exporter/probes/frame/api/api_page.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/xid/report.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

struct XidEvent {
    std::chrono::nanoseconds at{};  // CLOCK_REALTIME
    XidReport report;
    std::string gpu;                                 // its index, or "unknown"; empty: a switch
    std::string kind;                                // the class, or the switch's severity
    std::optional<processes::ProcessNames> process;  // where the text names one
};

inline constexpr std::size_t max_kept_xids = 100;

// For the aggregating thread.
class XidHistory {
public:
    void add(XidEvent event);

    // The newest first.
    [[nodiscard]] std::vector<XidEvent> list() const;
    [[nodiscard]] XidsOverview overview() const;

private:
    std::deque<XidEvent> events_;  // the newest last
    std::uint64_t count_ = 0;      // of all since the start
};

// "xids": docs/api.md describes the parameters and the members.
inline constexpr std::string_view xids_page_name = "xids";
[[nodiscard]] ApiPage xids_page(std::vector<XidEvent> all);

}  // namespace gpusnoop::probes
