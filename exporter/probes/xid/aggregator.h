// Counts the driver's reports by GPU, code, class and process. No BPF here: records and lines in,
// families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/rate_limit.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/frame/counting_aggregator.h"
#include "exporter/probes/xid/history.h"
#include "exporter/probes/xid/report.h"

namespace gpusnoop::probes {

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
