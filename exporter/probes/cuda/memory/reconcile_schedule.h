// Decides when to read the kernel's table of live allocations, to make ours agree with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace gpusnoop::probes {

// Reading takes CPU time, so CPU time bounds how often it is done: the time in which other threads
// had the CPU does not count.
class ReconcileSchedule {
public:
    // `lost`: records of memory, up to now. `wanted`: the table is needed for another reason.
    [[nodiscard]] bool is_due(std::chrono::nanoseconds now, std::uint64_t lost, bool wanted);
    // The table was read, and took this CPU time.
    void read(std::chrono::nanoseconds now, std::chrono::nanoseconds cpu);
    // Our live allocations agree with it. `lost`: records lost before it was read.
    void reconciled(std::uint64_t lost) { reconciled_ = lost; }
    // They did so at least once.
    [[nodiscard]] bool has_reconciled() const { return reconciled_.has_value(); }

private:
    // Empty: no table has been read yet. It may be older than this exporter.
    std::optional<std::uint64_t> reconciled_;
    std::uint64_t lost_ = 0;  // at the last call, and when it last changed
    std::chrono::nanoseconds changed_{};
    std::chrono::nanoseconds read_{};
    std::chrono::nanoseconds cost_{};
};

}  // namespace gpusnoop::probes
