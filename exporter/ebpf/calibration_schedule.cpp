#include "exporter/ebpf/calibration_schedule.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

namespace gpusnoop::ebpf {

std::optional<CpuTimes> cpu_times_in(std::string_view stat) {
    constexpr std::string_view begin = "cpu ";
    if (!stat.starts_with(begin)) {
        return std::nullopt;
    }
    stat = stat.substr(begin.size(), stat.find('\n') - begin.size());
    CpuTimes times;
    // As in proc_stat(5), up to what is stolen: guests are in the times of users.
    for (int field = 0; field < 8; field++) {
        stat.remove_prefix(std::min(stat.find_first_not_of(' '), stat.size()));
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(stat.data(), stat.data() + stat.size(), value);
        if (error != std::errc{}) {
            return std::nullopt;
        }
        stat.remove_prefix(static_cast<std::size_t>(end - stat.data()));
        times.all += value;
        if (field == 3 || field == 4) {  // idle, and idle while a disk is waited for
            times.idle += value;
        }
    }
    return times;
}

bool CalibrationSchedule::is_due(std::chrono::nanoseconds now, CpuTimes times) {
    const CpuTimes before = times_;
    times_ = times;
    if (times.all <= before.all || times.idle < before.idle) {
        return false;
    }
    const double idle =
        static_cast<double>(times.idle - before.idle) / static_cast<double>(times.all - before.all);
    if (is_done() || now - measured_at_ < least_interval || idle < calmest_ + calmer_by) {
        return false;
    }
    measured_at_ = now;
    calmest_ = idle;
    return true;
}

}  // namespace gpusnoop::ebpf
