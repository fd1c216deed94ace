// The syscall probe's tables -> counters and histograms. No BPF here: tables in, families out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpf/syscall/syscall.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct SyscallFamilies {
    series::Family &calls, &errors, &durations;
};

SyscallFamilies make_syscall_families(series::FamilySet &set);

// The contents of the tables at one moment. An entry may occur twice. Its numbers only grow: from
// one reading to the next, and from its first occurrence to its second.
struct SyscallReading {
    std::vector<std::pair<syscall_key, syscall_counts>> counts;
    std::vector<std::pair<syscall_error_key, std::uint64_t>> errors;
};

// The name for a number of bpf/syscall/syscall.h: "read", "syscall_470", "compat", "unknown".
[[nodiscard]] std::string syscall_label(std::uint32_t number);

// `path` is as the program wrote it, and "" unless the trace wants paths.
using OnSyscall =
    std::function<void(const syscall_record &, std::string_view path, const ProcessIdentity &)>;

class SyscallAggregator {
public:
    explicit SyscallAggregator(const SeriesSettings &settings)
        : families_(settings.budget, settings.pid_label), processes_(families_, settings) {}

    // A record of a process, or in a trace of a call, which is passed on. False: another record, or
    // a wrong size.
    bool on_record(std::span<const std::byte> bytes, const OnSyscall &trace = nullptr);
    // Counts the difference from the last reading.
    void on_reading(SyscallReading reading);

    [[nodiscard]] const series::FamilySet &families() const { return families_; }
    // Call tidy() for processes that had ended before a reading began. Then delete their entries in
    // the tables.
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

private:
    // The counts of the last reading, and their slots.
    struct Counted {
        series::Slot calls;
        series::Slot duration;
        syscall_counts last{};
        syscall_counts now{};  // of all shards, while a reading is added up
        bool is_in_reading = false;
    };
    struct CountedError {
        series::Slot slot;
        std::uint64_t last = 0;
    };
    struct Process : KnownProcess {
        std::unordered_map<std::uint16_t, Counted> calls;
        std::map<std::pair<std::uint16_t, std::uint16_t>, CountedError> errors;
    };

    Counted &counted(const ProcessKey &key, std::uint16_t number);
    CountedError &counted_error(const syscall_error_key &key);

    series::FamilySet families_;
    SyscallFamilies of_ = make_syscall_families(families_);
    ProcessTable<Process> processes_;
};

}  // namespace gpusnoop::probes
