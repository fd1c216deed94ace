// Counts the driver's reports by GPU, code, class and process. No BPF here: records and lines in,
// families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/rate_limit.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/xid/report.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// The last reports of the driver, for /api/v1/xids and the status page.
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

struct XidFamilies {
    series::Family &xids, &sxids, &ignored;
};

XidFamilies make_xid_families(series::FamilySet &set);

class XidAggregator : public CountingAggregator<make_xid_families> {
public:
    explicit XidAggregator(const SeriesSettings &settings);

    // The node's GPUs.
    void set_gpus(const std::vector<discovery::Gpu> &gpus);
    [[nodiscard]] bool knows_gpus() const { return !gpus_.empty(); }
    // Counts also the lines that programs have written to /dev/kmsg.
    void count_written_lines() { counts_written_ = true; }

    // A record of bpf/xid.h. False: not one.
    bool on_record(std::span<const std::byte> bytes);
    // A line of the kernel's log, at this time of the monotonic clock. False: it is not of a
    // report.
    bool on_line(std::string_view line, bool written_by_program, std::chrono::nanoseconds at);

    [[nodiscard]] const XidHistory &history() const { return history_; }

private:
    void ignore(std::string_view reason);
    void on_report(XidReport report, std::chrono::nanoseconds at);
    const KnownProcess *process_of(const XidReport &report, std::chrono::nanoseconds at);
    void count(const XidEvent &event, const KnownProcess *process);
    void log_report(const XidEvent &event);

    bool counts_written_ = false;
    std::map<std::string, std::string> gpus_;  // index by PCI address
    std::string name_;                         // of the process that is looked up, in the report
    XidHistory history_;
    RateLimit log_limit_;
};

}  // namespace gpusnoop::probes
