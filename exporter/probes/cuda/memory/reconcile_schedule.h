// When to read the kernel's table of live allocations, and to make ours agree with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace gpusnoop::probes {

// Reading takes CPU time, which is what bounds how often it is done: time that others had the CPU
// meanwhile is no reason to wait longer.
class ReconcileSchedule {
public:
    // `lost`: records of memory, up to now. `wanted`: something else is to be had from the table.
    [[nodiscard]] bool is_due(std::chrono::nanoseconds now, std::uint64_t lost, bool wanted);
    // The table was read, for so much CPU time.
    void read(std::chrono::nanoseconds now, std::chrono::nanoseconds cpu);
    // Our live allocations agree with it. So much was lost before it was read.
    void reconciled(std::uint64_t lost) { reconciled_ = lost; }

private:
    // Empty: no table has been read yet. It may be older than this exporter.
    std::optional<std::uint64_t> reconciled_;
    std::uint64_t lost_ = 0;  // at the last look, and when that last changed
    std::chrono::nanoseconds changed_{};
    std::chrono::nanoseconds read_{};
    std::chrono::nanoseconds cost_{};
};

}  // namespace gpusnoop::probes
