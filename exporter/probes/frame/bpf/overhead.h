// What a probe on functions costs the processes that call them: gpusnoop_overhead_seconds_total.
//
// The same for `cuda`, `functions` and `torch`. The programs add up the cost of a process in its
// entry of the kernel's table of processes (bpf/lib/cost.bpf.h). It is read for each page, and is
// in the record of the process's end. The cost of one run of a program was measured on this machine
// (ebpf/calibration.h). overhead_limits.h keeps the sum of all probes within the CPU time of the
// process.
#pragma once

#include <bpf/bpf.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "bpf/lib/processes/process.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// Each probe on functions has this family; on the page they are one.
series::Family &make_overhead_family(series::FamilySet &set);

// The nanoseconds that the programs have counted for a running process.
using CostOf = std::function<std::uint64_t(const ProcessKey &)>;

class Overhead {
public:
    // The family is one of the probe's. Without limits, all of the cost is shown.
    Overhead(series::Family &family, std::string probe, OverheadLimitsPtr limits)
        : family_(family), probe_(std::move(probe)), limits_(std::move(limits)) {}

    // From the record of the process's end. `cost_ns` counts from the process's first traced call
    // on; its threads have run `run_ns` in all.
    void note_ended(KnownProcess &process, std::uint64_t cost_ns, std::uint64_t run_ns);

    template <typename Process>
    void note_running(const ProcessTable<Process> &processes, const CostOf &cost_of) {
        processes.for_each([&](Process &process) {
            if (!process.ended) {
                note_running(process, cost_of(process.key));
            }
        });
    }

    // An earlier exporter has shown it.
    void leave_out(KnownProcess &process, std::uint64_t cost_ns);

private:
    void note_running(KnownProcess &process, std::uint64_t cost_ns);
    void note(KnownProcess &process, std::uint64_t cost_ns);
    [[nodiscard]] OverheadShare &share_of(KnownProcess &process);

    series::Family &family_;
    std::string probe_;
    OverheadLimitsPtr limits_;
};

// From the table of processes of the probe's programs, whose values are `Value`.
template <typename Value>
std::uint64_t cost_in(int table, const ProcessKey &process) {
    Value value{};
    if (bpf_map_lookup_elem(table, &process.tgid, &value) != 0) {
        return 0;
    }
    static_assert(sizeof(value) >= sizeof(process_entry));
    process_entry entry{};
    std::memcpy(&entry, &value, sizeof(entry));  // such a value begins with it
    return entry.since_ns == process.since_ns ? entry.cost_ns : 0;
}

}  // namespace gpusnoop::probes
