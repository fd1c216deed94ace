// On whose behalf the kernel worked: the processes behind records that bring their identity along.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bpf/lib/process.h"
#include "exporter/probes/process_groups.h"
#include "exporter/probes/process_identity.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

// There is no record of a process's end here: they are looked for in /proc.
class Callers {
public:
    struct Caller {
        series::LabelValues labels;  // comm, container, and pid where it is asked for
        series::Owner owner = 0;
    };

    Callers(bool pid_label, std::chrono::nanoseconds retention)
        : pid_label_(pid_label), retention_(retention) {}

    // Valid until tidy(). `tgid` 0 is no process: an interrupt.
    const Caller &find(std::uint32_t tgid, const process_identity &identity);

    // Looks who is gone. The owners that nobody has been behind for the retention: their series
    // are to be removed.
    std::vector<series::Owner> tidy(std::chrono::nanoseconds now);

private:
    // By exec a process gets another name.
    struct Key {
        std::uint32_t tgid = 0;
        std::uint64_t started_ns = 0;
        std::string comm;
        auto operator<=>(const Key &) const = default;
    };
    struct Known {
        Caller caller;
        std::uint64_t number = 0;
    };

    bool pid_label_;
    std::chrono::nanoseconds retention_;
    std::map<Key, Known> known_;
    std::uint64_t numbers_ = 0;
    ProcessGroups groups_;
    EndedProcesses ended_;
};

}  // namespace gpusnoop::probes
